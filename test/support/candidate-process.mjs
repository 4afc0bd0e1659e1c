/** A Nest application with the built package that stands for the role `indexer`, and tells the test (candidate.ts) of each term that it leads. */
import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { given, load, serve } from './answer-calls.mjs';

const { Leader, LockModule, LockService } = await load();

const LOOKS_EVERY_MS = 2;
const LOADED_EVERY_MS = 50;

/** What all processes of this machine measure time with, in ms. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
/** It may lead before it knows its locks. */
let locks;
const isLeader = () => locks?.leaderships[0].isLeader ?? false;

/** Tells when each term began, until when it was trusted, when it was told over, and when it ended. */
class Indexer {
  async index(term) {
    const told = { fence: term.fence, from: now(), until: now() };
    process.send({ term: { fence: told.fence, from: told.from } });
    const look = setInterval(() => isLeader() && (told.until = now()), LOOKS_EVERY_MS);
    if (!term.signal.aborted) await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
    told.toldAt = now();
    clearInterval(look);
    if (process.connected) process.send({ term: { ...told, endedAt: now() } });
  }
}
Injectable()(Indexer);
Leader('indexer')(Indexer.prototype, 'index', Object.getOwnPropertyDescriptor(Indexer.prototype, 'index'));

/** Takes locks that the other processes want as well. */
async function work() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOADED_EVERY_MS).unref());
    await locks.withLock(`load:${Math.floor(Math.random() * 5)}`, async () => {});
  }
}

await serve(LockModule, [Indexer], (app) => {
  locks = app.get(LockService);
  // The shutdown refuses it, and then it is over.
  if (given.loaded) work().catch(() => {});
  return { isLeader };
});
