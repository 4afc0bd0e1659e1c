/**
 * The module of the board, a page for operators that shows who holds which lock, since when, and who waits for it.
 */
import { Inject, Logger, Module, type DynamicModule, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { systemClock } from '../core/port/clock.js';
import type { LockStore } from '../core/port/lock-store.js';
import { findLocks, storeToken } from '../nest/lock-names.js';
import { Board } from './board.js';
import { boardControllers } from './board-controllers.js';
import { assertGuarded, resolveBoardOptions, type LockBoardOptions, type ResolvedBoardOptions } from './board-options.js';
import { WatchedLocks, type WatchedService } from './watched-locks.js';

const BOARD_OPTIONS = Symbol.for('nestjs-holdfast:board-options');

/**
 * Serves the board:
 *
 *     LockBoardModule.forRoot({ path: '/locks', guards: [OperatorGuard], forceRelease: true })
 *
 * The boot fails in production without guards, and when one of `instances` does not exist.
 */
@Module({})
export class LockBoardModule implements OnModuleInit, OnModuleDestroy {
  constructor(
    @Inject(BOARD_OPTIONS) private readonly options: ResolvedBoardOptions,
    @Inject(Board) private readonly board: Board,
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
  ) {}

  /** Makes the module for one board. @throws LockUsageError for options that are not valid */
  static forRoot(options: LockBoardOptions = {}): DynamicModule {
    const resolved = resolveBoardOptions(options);
    return {
      module: LockBoardModule,
      imports: options.imports ?? [],
      controllers: boardControllers(resolved),
      providers: [Board, { provide: BOARD_OPTIONS, useValue: resolved }],
    };
  }

  onModuleInit(): void {
    const { options } = this;
    assertGuarded(options, process.env['NODE_ENV']);
    if (options.guards.length === 0) {
      const power = options.forceRelease ? 'see locks and take them away' : 'see locks';
      new Logger('LockBoardModule').warn(`Everybody who reaches this server may ${power} at '${options.path}': the board has no guards.`);
    }
    this.board.open(options.instances.map((name) => this.watched(name)));
  }

  private watched(name: string): WatchedLocks {
    const locks = findLocks<WatchedService>(this.moduleRef, name, 'LockBoardModule', 'events');
    // A module that only routes keys to other modules has no store.
    const store = this.moduleRef.get<LockStore | null>(storeToken(name), { strict: false });
    return new WatchedLocks(name, locks, systemClock, store ?? undefined);
  }

  /** Closes the board. Nest calls this hook before it closes the server, which would wait for open views. */
  async onModuleDestroy(): Promise<void> {
    await this.board.close();
  }
}
