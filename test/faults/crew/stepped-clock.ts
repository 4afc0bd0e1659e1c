/**
 * A wall clock that a test can set for one server while it runs: a small library, compiled here and loaded before libc,
 * adds to every reading of the wall clock what a file says. The monotonic clock is left alone, as it is when an operator
 * or a time service sets the clock.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { open, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const SOURCE = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
static volatile long long *shift_us;
static long long shift(void) {
  if (!shift_us) {
    int file = open(getenv("CLOCK_SHIFT_FILE"), O_RDONLY);
    shift_us = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
  }
  return *shift_us;
}
int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(tv, zone);
  long long us = tv->tv_sec * 1000000LL + tv->tv_usec + shift();
  tv->tv_sec = us / 1000000;
  tv->tv_usec = us % 1000000;
  return result;
}
int clock_gettime(clockid_t clock, struct timespec *ts) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, ts);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    long long us = ts->tv_sec * 1000000LL + ts->tv_nsec / 1000 + shift();
    ts->tv_nsec = (us % 1000000) * 1000 + ts->tv_nsec % 1000;
    ts->tv_sec = us / 1000000;
  }
  return result;
}
time_t time(time_t *out) {
  struct timeval tv;
  gettimeofday(&tv, 0);
  if (out) *out = tv.tv_sec;
  return tv.tv_sec;
}
`;

export class SteppedClock {
  private constructor(
    private readonly folder: string,
    private readonly shiftFile: FileHandle,
    /** For the server whose clock it is. */
    readonly env: NodeJS.ProcessEnv,
  ) {}

  /** undefined where there is no C compiler. */
  static async make(): Promise<SteppedClock | undefined> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
    const [source, library, shift] = ['clock.c', 'clock.so', 'shift'].map((name) => join(folder, name)) as [string, string, string];
    writeFileSync(source, SOURCE);
    await writeFile(shift, Buffer.alloc(8));
    try {
      await promisify(execFile)('gcc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    } catch {
      await rm(folder, { recursive: true, force: true });
      return undefined;
    }
    return new SteppedClock(folder, await open(shift, 'r+'), { LD_PRELOAD: library, CLOCK_SHIFT_FILE: shift });
  }

  /** Sets the clock to so far from the true one; the page is shared, so the server sees it at once. */
  async set(offMs: number): Promise<void> {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(offMs) * 1000n);
    await this.shiftFile.write(bytes, 0, 8, 0);
  }

  async remove(): Promise<void> {
    await this.shiftFile.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}
