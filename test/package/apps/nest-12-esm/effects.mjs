// Prints what loading each entry point of the package has changed in the process: nothing, since it says so in sideEffects.
import 'reflect-metadata';
import '@nestjs/common';
import '@nestjs/core';
import '@opentelemetry/api';
import 'ioredis';
import 'rxjs';

function surroundings() {
  return [
    ...Object.getOwnPropertyNames(globalThis),
    ...process.eventNames().flatMap((name) => process.listeners(name).map(() => `a listener of ${String(name)}`)),
    ...process.getActiveResourcesInfo(),
    ...Object.keys(process.env),
  ];
}

const before = surroundings();
for (const entry of ['', '/board', '/telemetry', '/testing']) await import(`nestjs-holdfast${entry}`);
for (const each of before) if (!surroundings().includes(each)) throw new Error(`${each} is gone`);
const added = surroundings().toSorted();
for (const each of before) added.splice(added.indexOf(each), 1);
console.log(JSON.stringify(added));
