/**
 * What a nemesis does to a master with a replica: replication that lags or is cut, and failovers, each a sequence of steps that all
 * come, at their times or at once when the world is healed.
 *
 *     replication is cut ──▶ the master is gone ──▶ the replica is promoted ──▶ the master is back ──▶ it becomes the replica
 */
import { slotOf } from '../../lib/stores/wire/cluster-connection.js';
import { ClusterSetting } from './cluster-setting.js';
import { PERMIT_KEY, type FailoverFault } from './plan.js';
import type { Random } from './random.js';
import type { ReplicatedMaster } from './replicated-master.js';
import { lockKeyOf, SentinelSetting } from './setting.js';
import type { SimServer } from './sim-server.js';
import type { SimProcess } from './sim-process.js';
import type { Member, World } from './world.js';

interface Step {
  readonly afterMs: number;
  readonly act: () => void;
}

/** How long it takes until a master that is gone is replaced, and until one that is back is made a replica, in ms. */
const REPLACED_WITHIN_MS: readonly [number, number] = [400, 2_500];
const DEMOTED_WITHIN_MS: readonly [number, number] = [50, 2_500];
/** Sentinels tell each other of a promotion. */
const TOLD_WITHIN_MS = 100;

export class Failovers {
  private readonly busy = new Set<ReplicatedMaster>();

  constructor(
    private readonly world: World,
    private readonly random: Random,
    /** Something has begun that must end. Returns what ends it. */
    private readonly begun: (end: () => void) => () => void,
  ) {}

  strike(fault: FailoverFault): void {
    const { world, random } = this;
    const key = random.pick(world.plan.permits === undefined ? world.plan.keys : [...world.plan.keys, PERMIT_KEY]);
    const home = world.setting.homeOf(key);
    const pair = world.setting.replicated.find(({ master }) => master === home);
    if (pair === undefined || !this.isFree(pair)) return;
    switch (fault) {
      case 'slot moves':
        return this.move(slotOf(lockKeyOf(key)), pair);
      case 'master killed':
        return this.kill(pair);
      case 'master frozen':
        return this.freeze(pair);
      case 'partition':
        return this.part(pair);
      case 'replication lags':
      case 'replication cut':
        return this.disturb(fault, pair);
    }
  }

  private isFree(pair: ReplicatedMaster): boolean {
    return !this.busy.has(pair) && pair.master.state === 'up';
  }

  /** A slot goes to another master of the Cluster, key by key. */
  private move(slot: number, pair: ReplicatedMaster): void {
    const { world, random } = this;
    const { setting } = world;
    const to = random.pick(setting.replicated.filter((other) => other !== pair && this.isFree(other)));
    if (!(setting instanceof ClusterSetting) || to === undefined) return;
    const pause = (): number => random.pick([1, 50, 500, 2_000]) * random.next();
    const aKey: Step = { afterMs: pause(), act: () => void (to.master.state === 'up' && pair.master.state === 'up' && setting.moveKey(slot)) };
    this.sequence([pair, to], `slot ${slot} is moved from ${pair.master.name} to ${to.master.name}`, [
      { afterMs: 0, act: () => setting.beginMove(slot, to) },
      ...Array.from({ length: random.whole(1, 6) }, () => ({ ...aKey, afterMs: pause() })),
      { afterMs: pause(), act: () => setting.endMove(slot) },
    ]);
  }

  private kill(pair: ReplicatedMaster): void {
    const { random } = this;
    const { master } = pair;
    const keepsData = random.chance(0.7);
    this.sequence([pair], `${master.name} is killed`, [
      this.tailIsLost(pair),
      { afterMs: this.aTail(), act: () => master.stop() },
      { afterMs: random.between(...REPLACED_WITHIN_MS), act: () => this.promote(pair) },
      { afterMs: random.between(50, 4_000), act: () => master.start(keepsData) },
      this.demotion(pair),
    ]);
  }

  /** The connections to it stand, and it goes on where it was. */
  private freeze(pair: ReplicatedMaster): void {
    const { random } = this;
    const { master } = pair;
    this.sequence([pair], `${master.name} is frozen`, [
      this.tailIsLost(pair),
      { afterMs: this.aTail(), act: () => master.freeze() },
      { afterMs: random.between(...REPLACED_WITHIN_MS), act: () => this.promote(pair) },
      { afterMs: random.between(50, 4_000), act: () => master.thaw() },
      this.demotion(pair),
    ]);
  }

  /** The master goes on for some processes, which do not reach the replica. */
  private part(pair: ReplicatedMaster): void {
    const { random, world } = this;
    const { master } = pair;
    const { replica } = pair.replication!;
    const share = random.next();
    const members = world.members.filter(({ process }) => process.alive);
    const [few, many] = [members.filter(() => random.chance(share)), [] as Member[]];
    for (const member of members) if (!few.includes(member)) many.push(member);
    const silence = (how: 'loses' | 'keeps' | 'no'): void => {
      for (const member of few) this.wayTo(member, replica).silence(how);
      for (const member of many) this.wayTo(member, master).silence(how);
    };
    const what = `${master.name} is parted from ${replica.name}, with ${few.map(({ process }) => process.name).join() || 'nobody'}`;
    this.sequence([pair], what, [
      {
        afterMs: 0,
        act: () => {
          pair.replication!.cut();
          master.isAlone = true;
          silence(random.pick(['loses', 'keeps'] as const));
        },
      },
      { afterMs: random.between(...REPLACED_WITHIN_MS), act: () => this.promote(pair, few.map(({ process }) => process)) },
      {
        afterMs: random.between(200, 6_000),
        act: () => {
          master.isAlone = false;
          silence('no');
          for (const { process } of few) this.tellSoon(process);
        },
      },
      this.demotion(pair),
    ]);
  }

  private promote(pair: ReplicatedMaster, few: readonly SimProcess[] = []): void {
    const { world, random } = this;
    const { setting } = world;
    const { master } = pair;
    if (setting instanceof SentinelSetting) {
      for (const { process } of world.members) {
        setting.mislead(process, master);
        if (!few.includes(process)) world.time.after(random.between(0, TOLD_WITHIN_MS), () => setting.tell(process));
      }
    }
    const lost = pair.promote();
    world.note(`${pair.master.name} is promoted, and lacks ${lost} writes of ${master.name}`);
    world.forgets(pair.master);
  }

  /** Where nothing may let two hold a lock, a former master that was restarted is a replica before its recovery is over. */
  private demotion(pair: ReplicatedMaster): Step {
    const { certain, recoveryMs } = this.world.plan;
    const [soonest, latest] = DEMOTED_WITHIN_MS;
    return {
      afterMs: this.random.between(soonest, certain ? Math.min(latest, 0.9 * recoveryMs) : latest),
      act: () => {
        const { former } = pair;
        pair.rejoin();
        this.world.note(`${former?.name} is made a replica of ${pair.master.name}`);
        this.world.records.forget();
        this.world.forgottenAt = this.world.time.now;
      },
    };
  }

  private tellSoon(process: SimProcess): void {
    const { setting, time } = this.world;
    if (setting instanceof SentinelSetting) time.after(this.random.between(0, 500), () => setting.tell(process));
  }

  /** What is written from here on the replica never gets. */
  private tailIsLost(pair: ReplicatedMaster): Step {
    return { afterMs: 0, act: () => pair.replication!.cut() };
  }

  private aTail(): number {
    return this.random.pick([0, 20, 300, 3_000]) * this.random.next();
  }

  private disturb(fault: 'replication lags' | 'replication cut', pair: ReplicatedMaster): void {
    const { random } = this;
    const replication = pair.replication!;
    const lagMs = random.pick([20, 200, 1_500]);
    this.sequence([pair], `${fault} from ${pair.master.name}`, [
      { afterMs: 0, act: () => (fault === 'replication cut' ? replication.cut() : (replication.lagMs = [0, lagMs])) },
      { afterMs: random.between(50, 3_000), act: () => replication.mend() },
    ]);
  }

  private wayTo(member: Member, server: SimServer): Member['ways'][number] {
    return member.ways.find((way) => way.server === server)!;
  }

  /** Takes the steps at their times; all that are left at once when the world is healed. */
  private sequence(pairs: readonly ReplicatedMaster[], what: string, steps: readonly Step[]): void {
    const { world } = this;
    for (const pair of pairs) this.busy.add(pair);
    world.note(what);
    let taken = 0;
    const end = this.begun(() => {
      while (taken < steps.length) steps[taken++]!.act();
      for (const pair of pairs) this.busy.delete(pair);
      world.note(`over: ${what}`);
    });
    const goOn = (): void => {
      const next = taken;
      if (steps[next] === undefined) return end();
      world.time.after(steps[next].afterMs, () => {
        if (taken !== next) return;
        taken += 1;
        steps[next]!.act();
        goOn();
      });
    };
    goOn();
  }
}
