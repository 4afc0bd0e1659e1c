/** A binary heap of appointments: the one that is due first stands at the top, and any of them is moved or removed in logarithmic time. */
import type { Appointment } from './appointment.js';

export class AppointmentHeap {
  private readonly heap: Appointment[] = [];
  /** When each appointment is due. Numbers in one array are compared faster than fields of objects scattered in memory. */
  private readonly times: number[] = [];

  get size(): number {
    return this.heap.length;
  }

  get first(): Appointment | undefined {
    return this.heap[0];
  }

  all(): readonly Appointment[] {
    return this.heap;
  }

  add(item: Appointment, at: number): void {
    item.at = at;
    item.heapIndex = this.heap.length;
    this.heap.push(item);
    this.times.push(at);
    this.sift(item);
  }

  /** Called when the time of an appointment in the heap has changed. */
  moved(item: Appointment): void {
    this.sift(item);
  }

  /** Removes an appointment that is in the heap. */
  remove(item: Appointment): void {
    const last = this.heap.pop()!;
    this.times.pop();
    if (last !== item) {
      last.heapIndex = item.heapIndex;
      this.sift(last);
    }
    item.heapIndex = -1;
  }

  /** Moves an item whose time has changed to its right position. */
  private sift(item: Appointment): void {
    const { heap, times } = this;
    const { at } = item;
    let index = item.heapIndex;
    for (let parent = (index - 1) >> 1; index > 0 && times[parent]! > at; parent = (index - 1) >> 1) {
      this.put(heap[parent]!, times[parent]!, index);
      index = parent;
    }
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      const sibling = child + 1;
      if (sibling < heap.length && times[sibling]! < times[child]!) child = sibling;
      if (times[child]! >= at) break;
      this.put(heap[child]!, times[child]!, index);
      index = child;
    }
    this.put(item, at, index);
  }

  private put(item: Appointment, at: number, index: number): void {
    this.heap[index] = item;
    this.times[index] = at;
    item.heapIndex = index;
  }
}
