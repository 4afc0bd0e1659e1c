/** The fragments of docs/reentry.md. */
import { Locked } from 'nestjs-holdfast';

export class Shop {
  readonly done: string[] = [];

  @Locked('order:<0>')
  async pay(id: string): Promise<void> {
    await this.reserve(id); // also @Locked('order:<0>'): it re-enters
  }

  @Locked('order:<0>')
  async reserve(id: string): Promise<void> {
    this.done.push(`reserved ${id}`);
  }

  @Locked(['account:<0>', 'account:<1>'])
  async transfer(from: string, to: string, amount: number): Promise<void> { this.done.push(`${amount} from ${from} to ${to}`); }
}
