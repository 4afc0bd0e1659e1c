/**
 * A master with a replica, either of which may be the master. After a promotion the former master knows nothing of it, and goes on for
 * those who still reach it, until it is made a replica: then its data are dropped.
 *
 *     a master and its replica ──(promoted)──▶ a master, and a former one ──(rejoins)──▶ a master and its replica
 */
import type { Random } from './random.js';
import { Replication } from './replication.js';
import type { SimServer } from './sim-server.js';
import type { VirtualTime } from './virtual-time.js';

export class ReplicatedMaster {
  /** Undefined while there is a former master. */
  replication: Replication | undefined;
  former: SimServer | undefined;

  constructor(public master: SimServer, replica: SimServer, private readonly time: VirtualTime, private readonly random: Random) {
    replica.takePart('replica');
    this.link(replica);
  }

  /** The replica takes over. Returns how many writes it had not got. */
  promote(): number {
    const { replication, master } = this;
    if (replication === undefined) throw new Error('there is no replica');
    const lost = replication.behind;
    replication.end();
    master.replication = undefined;
    this.replication = undefined;
    this.former = master;
    this.master = replication.replica;
    this.master.takePart('master');
    return lost;
  }

  /** The former master becomes the replica. */
  rejoin(): void {
    const { former } = this;
    if (former === undefined) return;
    this.former = undefined;
    former.takePart('replica');
    this.link(former);
  }

  private link(replica: SimServer): void {
    this.replication = new Replication(this.master, replica, this.time, this.random);
    this.master.replication = this.replication;
  }
}
