/** Does to a world what its plan allows, one fault after another and some at once, and heals all of it in the end. */
import { renew } from '../../lib/stores/wire/lua.generated.js';
import { Failovers } from './failovers.js';
import type { ForcedReleases } from './forced-releases.js';
import type { Fault, ServerFault } from './plan.js';
import type { Random } from './random.js';
import type { SimServer } from './sim-server.js';
import type { Way, WayFaults } from './sim-socket.js';
import type { Member, World } from './world.js';

/** So many faults at once are enough. */
const AT_ONCE = 3;
/** No clock of a server is ever set further than this from where it began, in ms: within the margin of trust. */
const SMALL_STEP_MS = 2;
/** It is not promised that a sleep of less than a second, or little more, is noticed. */
const SHORTEST_SLEEP_MS = 1_200;

export class Nemesis {
  /** Ends of what is going on. */
  private readonly active = new Set<() => void>();
  private readonly steps = new Map<SimServer, number>();
  private stopped = false;
  private readonly failovers: Failovers;
  /** When the last fault ended. */
  endedAt = 0;

  constructor(
    private readonly world: World,
    private readonly random: Random,
    /** Lets another process join. */
    private readonly join: () => void,
  ) {
    this.failovers = new Failovers(world, random, (end) => this.begun(end));
  }

  get calm(): boolean {
    return this.active.size === 0;
  }

  begin(): void {
    const { world, random } = this;
    if (world.plan.faults.length === 0) return;
    world.time.after(random.between(50, 1_500), () => {
      if (this.stopped) return;
      if (this.active.size < AT_ONCE) this.strike(random.pick(world.plan.faults));
      this.begin();
    });
  }

  heal(): void {
    this.stopped = true;
    for (const end of [...this.active]) end();
  }

  private strike(fault: Fault): void {
    const { world, random } = this;
    const member = random.pick(world.members.filter(({ process, opened }) => process.alive && opened));
    const server = this.aServer();
    if (member === undefined) return;
    const way = member.ways[world.servers.indexOf(server)]!;
    switch (fault) {
      case 'pause':
        return this.pause(member);
      case 'sleep':
        return this.sleep(member);
      case 'crash':
        return this.crash(member);
      case 'shutdown':
        return this.shutDown(member);
      case 'cut':
        this.note(fault, way);
        return way.cut();
      case 'silence':
        return this.silence(way);
      case 'drop':
        return this.disturb(fault, way, { dropsRequests: random.between(0, 0.2), dropsReplies: random.between(0, 0.2) });
      case 'duplicate':
        return this.disturb(fault, way, { duplicates: random.between(0.05, 0.5) });
      case 'deaf':
        return this.disturb(fault, way, { dropsMessages: random.pick([0.3, 1]) });
      case 'slow':
        return this.disturb(fault, way, { longestMs: random.pick([30, 150, 500]) });
      case 'wall clock':
        world.note(`${member.process.name}: its wall clock is set`);
        return member.process.stepWall(random.between(-3_600_000, 3_600_000));
      case 'force release':
        return world.forced === undefined ? this.forceRelease(member) : this.forceReleaseOnNodes(member, world.forced);
      case 'other format':
        return this.bootOtherFormat();
      case 'master killed':
      case 'master frozen':
      case 'partition':
      case 'replication lags':
      case 'replication cut':
      case 'slot moves':
        return this.failovers.strike(fault);
      default:
        if (server.state === 'up') this.strikeServer(fault, server);
    }
  }

  private strikeServer(fault: ServerFault, server: SimServer): void {
    const { world, random } = this;
    switch (fault) {
      case 'freeze':
        server.freeze();
        return this.last(`${server.name} freezes`, random.between(50, 4_000), () => server.thaw());
      case 'restart':
      case 'empty restart':
      case 'failover':
        return this.restart(fault, server);
      case 'flush':
        world.note(`${server.name} is flushed`);
        server.flush();
        return world.forgets(server);
      case 'older snapshot':
        return this.olderSnapshot(server);
      case 'loading':
        server.loading = true;
        return this.last(`${server.name} loads its data`, random.between(50, 2_000), () => (server.loading = false));
      case 'full':
        world.records.lenient = true;
        server.refuseWrites('oom');
        return this.last(`${server.name} is full`, random.between(50, 3_000), () => server.refuseWrites('nothing'));
      case 'readonly':
        world.records.lenient = true;
        server.refuseWrites('readonly');
        return this.last(`${server.name} is read-only`, random.between(50, 2_000), () => server.refuseWrites('nothing'));
      case 'script flush':
        world.note(`${server.name} forgets its scripts`);
        return server.forgetScripts();
      case 'clock': {
        const before = this.steps.get(server) ?? 0;
        const after = random.between(-SMALL_STEP_MS, SMALL_STEP_MS);
        this.steps.set(server, after);
        world.note(`${server.name}: its clock is set by ${(after - before).toFixed(1)} ms`);
        return server.stepClock(after - before);
      }
      case 'clock jump': {
        const ms = random.pick([-1, 1]) * random.pick([60, 900, 5_000, 20_000]) * random.between(0.5, 1);
        world.note(`${server.name}: its clock jumps by ${ms.toFixed(0)} ms`);
        server.stepClock(ms);
        world.records.lenient = true; // expiry that was set before the jump stands beside what is set after it
        if (ms < 0) world.setBackMs += Math.ceil(-ms);
        // Leases of before are judged by another clock now, and samples of before count for ten seconds more.
        if (ms > 0) world.excuse(12_000 + world.plan.maxLeaseMs);
      }
    }
  }

  /** One that serves. */
  private aServer(): SimServer {
    const { world, random } = this;
    const { setting, plan } = world;
    return setting.replicated.length === 0 ? random.pick(setting.servers) : setting.homeOf(random.pick(plan.keys));
  }

  private pause({ process }: Member): void {
    if (process.state !== 'running') return;
    process.pause();
    const ms = this.random.pick([100, 1_000, 3_000, 9_000]) * this.random.next();
    this.last(`${process.name} stands still for ${ms.toFixed(0)} ms`, ms, () => process.resume());
  }

  private sleep({ process }: Member): void {
    if (process.state !== 'running') return;
    const { time } = this.world;
    process.sleep();
    const notBefore = time.now + SHORTEST_SLEEP_MS;
    const ms = this.random.between(SHORTEST_SLEEP_MS, 12_000);
    // The end of all faults may come first.
    const wake = (): void => void time.after(Math.max(0, notBefore - time.now), () => process.wake());
    this.last(`the machine of ${process.name} sleeps for ${ms.toFixed(0)} ms`, ms, wake);
  }

  private crash(member: Member): void {
    const { world, random } = this;
    if (member.closing || this.living.length < 2) return;
    world.crash(member);
    this.last('somebody is missing', random.between(10, 2_000), this.join);
  }

  private shutDown(member: Member): void {
    const { world, random } = this;
    const { process, locks } = member;
    if (member.closing || this.living.length < 2 || process.state !== 'running') return;
    member.closing = true;
    world.note(`${process.name} shuts down`);
    locks.prepareShutdown();
    const since = world.time.now;
    const over = this.begun(() => this.join());
    void locks.close().then(() => {
      world.note(`${process.name} is shut down after ${(world.time.now - since).toFixed(0)} ms`);
      process.crash();
      world.witness.forget(process);
      world.time.after(random.between(0, 500), over);
    });
  }

  private silence(way: Way): void {
    const how = this.random.pick(['keeps', 'loses'] as const);
    way.silence(how);
    this.last(`silence between ${way.process.name} and ${way.server.name}, which ${how} what is sent`, this.random.between(50, 6_000), () => way.silence('no'));
  }

  private disturb(fault: Fault, way: Way, how: Partial<WayFaults>): void {
    const before: Partial<WayFaults> = Object.fromEntries(Object.keys(how).map((name) => [name, name === 'longestMs' ? 2 : 0]));
    Object.assign(way.faults, how);
    const name = `${fault} between ${way.process.name} and ${way.server.name}: ${JSON.stringify(how)}`;
    this.last(name, this.random.between(200, 6_000), () => Object.assign(way.faults, before));
  }

  private restart(fault: 'restart' | 'empty restart' | 'failover', server: SimServer): void {
    const { world, random } = this;
    server.stop();
    const missed = random.whole(0, 8);
    this.last(`${server.name} goes down (${fault})`, random.between(fault === 'failover' ? 500 : 10, 2_500), () => {
      if (fault === 'failover') server.failOver(missed, random.between(-100, 100));
      else server.start(fault === 'restart');
      if (fault === 'restart' || world.plan.topology === 'redlock') return;
      world.forgets(server);
    });
    // Whoever trusted a lease of the old memory may do so for a lease; nobody new is let in before it is up again.
  }

  /** It is loaded some time later, or while the answer to the next renewal, which it does not have, is on its way. */
  private olderSnapshot(server: SimServer): void {
    const { world, random } = this;
    const load = server.snapshot();
    const happens = (): void => {
      if (server.state !== 'up') return;
      world.note(`${server.name} loads an older snapshot`);
      load();
      world.goesBack();
    };
    const end = random.chance(0.5) ? happens : server.after(renew, happens);
    this.last(`${server.name} has written a snapshot`, random.between(20, 4_000), end);
  }

  private forceRelease({ process, locks }: Member): void {
    const { world, random } = this;
    if (process.state !== 'running') return;
    const key = random.pick(world.plan.keys);
    world.note(`an operator takes '${key}' away`);
    world.forcedAt = world.time.now;
    locks.forceRelease(key).catch(() => {}); // it may do so all the same
  }

  /** On a Redlock: from all holders or from one, and mostly while a minority of nodes is not reached and nobody hears a message. */
  private forceReleaseOnNodes(operator: Member, forced: ForcedReleases): void {
    const { world, random } = this;
    const { process, locks, ways } = operator;
    if (process.state !== 'running') return;
    const key = random.pick(world.plan.keys);
    const fence = random.chance(0.4) ? world.witness.fenceOn(key) : undefined;
    if (random.chance(0.7)) {
      const from = random.whole(0, ways.length - 1);
      const minority = random.whole(1, ways.length >> 1);
      const missed = ways.filter((_, at) => (at - from + ways.length) % ways.length < minority);
      for (const way of missed) way.silence('loses');
      world.hindered.set(process, Infinity);
      this.last(`silence between ${process.name} and ${missed.map(({ server }) => server.name).join()}`, random.between(20, 3_000), () => {
        for (const way of missed) way.silence('no');
        world.hindered.set(process, world.time.now);
      });
      this.deafen(random.between(20, 3_000));
    }
    world.note(`${process.name} takes '${key}' away from ${fence ?? 'all'}, as an operator`);
    world.forcedAt = world.time.now;
    const confirmed = forced.called(key, fence);
    locks.forceRelease(key, { fence }).then(
      (was) => was && confirmed(),
      () => {}, // it may do so all the same
    );
  }

  /** Nobody hears a message. */
  private deafen(forMs: number): void {
    const ways = this.world.members.flatMap((member) => member.ways);
    for (const way of ways) way.faults.dropsMessages = 1;
    this.last('messages are lost', forMs, () => ways.forEach((way) => void (way.faults.dropsMessages = 0)));
  }

  /** Somebody deploys a process with another wire format while those of the present one run. */
  private bootOtherFormat(): void {
    const { world } = this;
    const over = this.begun(() => {});
    world.note('a process with another wire format boots');
    void world.bootsWithOtherFormat().then((violation) => {
      if (violation !== undefined) world.violations.push(violation);
      over();
    });
  }

  private get living(): readonly Member[] {
    return this.world.members.filter(({ process, closing }) => process.alive && !closing);
  }

  private note(fault: Fault, { process, server }: Way): void {
    this.world.note(`${fault} between ${process.name} and ${server.name}`);
  }

  private last(what: string, forMs: number, end: () => void): void {
    this.world.note(`${what}, for ${forMs.toFixed(0)} ms`);
    this.world.time.after(
      forMs,
      this.begun(() => {
        end();
        this.world.note(`over: ${what}`);
      }),
    );
  }

  /** Something has begun that must end, once. Returns what ends it. */
  private begun(end: () => void): () => void {
    const once = (): void => {
      if (!this.active.delete(once)) return;
      this.endedAt = this.world.time.now;
      end();
    };
    this.active.add(once);
    return once;
  }
}
