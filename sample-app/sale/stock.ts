/** Names of one thing: where the pieces of an item stand in the ledger, and the key of the lock that guards them. */
import { lockKey } from 'nestjs-holdfast';

export const stockOf = (item: number): string => `stock:${item}`;

/** What `@Locked('item:<0>')` locks for this item. */
export const itemKey = (item: number): string => lockKey`item:${item}`;
