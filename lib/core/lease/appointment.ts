/** Something that is to be done at a certain time. Most appointments are the leases, callers and requests themselves, so that none needs an object of its own. */

/** An object that has one appointment at a time. Only the schedule and its heap write its fields. */
export abstract class Appointment {
  /** When it is due, in clock.now() time; Infinity without an appointment. */
  at = Infinity;
  /** Its position in the heap; -1 when it is not there. */
  heapIndex = -1;
  /** Its position in the list of noted appointments; -1 when it is not there. */
  notedIndex = -1;
  /** Called once when the time has come. The appointment has been removed by then, and a new one may be made. */
  abstract due(now: number): void;
}

/** An appointment that calls a function when it is due. */
export class Alarm extends Appointment {
  constructor(readonly due: (now: number) => void) {
    super();
  }
}
