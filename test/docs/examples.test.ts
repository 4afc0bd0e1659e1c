/** The examples of the docs: each stands in a file that is compiled with the tests, or is one of these tests itself. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import { Redis } from 'ioredis';
import { LockModule, LockService } from '../../lib/index.js';
import { startRedis } from '../support/redis-server.js';
import { deposit } from './examples/fencing.js';
import { Payments } from './examples/handing-off.js';
import { byHand, Orders } from './examples/keys.js';
import { leadByHand } from './examples/leading.js';
import { Shop } from './examples/reentry.js';
import { forAll } from '../support/started.js';

const PAGES = ['README.md', ...readdirSync('docs').filter((name) => name.endsWith('.md') && name !== 'api.md').map((name) => `docs/${name}`)];
/** The configuration of Vitest, which this project does not install. */
const OF_OTHERS = "import swc from 'unplugin-swc';";
const compiled = readdirSync('test/docs').filter((name) => name.endsWith('.ts')).map((name) => withoutLayout(readFileSync(`test/docs/${name}`, 'utf8')));

/** The text without indentation, empty lines, and the spaces in front of comments. */
function withoutLayout(text: string): string {
  return text.split('\n').map((line) => line.trim().replace(/\s+\/\//g, ' //')).join('\n');
}

/** The paragraphs of all TypeScript on a page: parts of a class and statements of a function stand side by side there. */
function examplesOf(page: string): string[] {
  const blocks = [...readFileSync(page, 'utf8').matchAll(/^ *```ts\n(.*?)^ *```/gms)].map(([, code]) => withoutLayout(code!).trim());
  return blocks.filter((block) => !block.startsWith(OF_OTHERS)).flatMap((block) => (compiled.includes(`${block}\n`) ? [] : block.split('\n\n')));
}

/** Finds the example; where it leaves something out (…), the compiled code may have anything on that line. */
function isCompiled(example: string, sources: readonly string[]): boolean {
  const pattern = new RegExp(example.split('…').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('.*'));
  return sources.some((source) => pattern.test(source));
}

describe('Every example of the docs', () => {
  it.each(PAGES)('is compiled: %s', (page) => {
    const own = [`test/docs/examples/${page.slice(5, -3)}.ts`, `test/docs/examples/${page.slice(5, -3)}.test.ts`].filter((file) => existsSync(file));
    const sources = [...own.map((file) => withoutLayout(readFileSync(file, 'utf8'))), ...compiled];
    expect(examplesOf(page).filter((example) => !isCompiled(example, sources))).toEqual([]);
  });
});

describe('The examples', () => {
  let redis: Redis;
  let locks: LockService;
  let app: TestingModule;
  const held: string[] = [];
  const noteKey = async (): Promise<void> => void held.push(locks.currentLease()!.key);

  afterAll(async () => {
    await app.close();
    redis.disconnect();
  });
  const server = forAll(startRedis);
  beforeAll(async () => {
    redis = new Redis(server.url);
    const providers = [Shop, { provide: Orders, useFactory: () => new Orders(noteKey) }];
    app = await Test.createTestingModule({ imports: [LockModule.forRoot({ redis: server.url })], providers }).compile();
    await app.init();
    locks = app.get(LockService);
  });

  it('write under the fence of their lock', async () => {
    await Promise.all([deposit(locks, redis), deposit(locks, redis)]);
    expect(await redis.hget('account:7:data', 'balance')).toBe('200');
  });

  it('hand a hold from a request to a worker, whose fence is higher', async () => {
    const paid: number[] = [];
    const jobs: { id: string; ticket: string }[] = [];
    const orders = { check: async () => void paid.push(locks.currentLease()!.fence), pay: async (_id: string, fence: number) => void paid.push(fence) };
    const payments = new Payments(locks, orders, { add: async (_name, data) => void jobs.push(data) });
    await payments.request('7');
    expect(await locks.isLocked('order:7')).toBe(true);
    await payments.process({ data: jobs[0]! } as Parameters<Payments['process']>[0]);
    expect(paid[1]).toBeGreaterThan(paid[0]!);
    expect(await locks.isLocked('order:7')).toBe(false);
  });

  it('stand for a role and stop', async () => {
    await leadByHand(locks, async (term) => void (await new Promise((done) => term.signal.addEventListener('abort', done))));
    expect(await locks.leader('indexer')).toBeNull();
  });

  it('name the same locks by hand as decorators do', async () => {
    await app.get(Orders).pay('urn:isbn:0451450523');
    await app.get(Orders).pack('a:b', 'c');
    await byHand(locks, 'urn:isbn:0451450523', 'a:b', 'c', noteKey);
    const keys = ['order:urn:isbn:0451450523', 'line:a%3Ab:c'];
    expect(held).toEqual([...keys, ...keys]);
  });

  it('re-enter their lock, and take several at once', async () => {
    const shop = app.get(Shop);
    await shop.pay('7');
    await shop.transfer('a', 'b', 5);
    expect(shop.done).toEqual(['reserved 7', '5 from a to b']);
  });
});
