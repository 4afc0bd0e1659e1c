/** One of several processes of the shop: opens, tells its parent the address, closes when the parent hangs up. */
import { once } from 'node:events';
import { openInstance } from './open-shop.js';

// Ctrl-C reaches the whole process group; the parent decides when to close.
process.on('SIGINT', () => {});
const parentGone = once(process, 'disconnect');

const shop = await openInstance(Number(process.argv[2] ?? 0));
if (process.connected) process.send?.(shop.urls[0]);
await parentGone;
await shop.close();
