/**
 * The routes of a board. The classes are made for each board, because Nest reads paths and guards from classes.
 *
 * Answers are written to the response itself, so that an application that wraps or maps what its handlers return does
 * not break the page.
 */
import { Controller, Get, Headers, Inject, Logger, Param, Post, Query, Req, Res, Sse, UseGuards, type MessageEvent, type Type } from '@nestjs/common';
import { map, type Observable } from 'rxjs';
import { isLockError } from '../core/port/errors.js';
import { sendAnswer, sendFile, sendPage, type PageResponse } from './board-page.js';
import type { ResolvedBoardOptions } from './board-options.js';
import { foreignRequest, type RequestHeaders } from './same-origin.js';
import { messageOf, type WatchedLocks } from './watched-locks.js';

/** What the routes show. */
export interface Board {
  view(): Observable<string>;
  /** @throws LockUsageError for an instance that the board does not show */
  of(instance: string): WatchedLocks;
}

export const BOARD = Symbol.for('nestjs-holdfast:board');

/** After a broken connection, in ms. */
const RECONNECT_MS = 500;

/** The controllers of a board with these options, guarded. */
export function boardControllers(options: ResolvedBoardOptions): Type[] {
  const classes = options.forceRelease ? [lookController(options), releaseController(options)] : [lookController(options)];
  for (const made of classes) UseGuards(...options.guards)(made);
  return classes;
}

function lookController({ path, forceRelease }: ResolvedBoardOptions): Type {
  @Controller(path)
  class LockBoardController {
    constructor(@Inject(BOARD) private readonly board: Board) {}

    @Get()
    page(@Req() request: { readonly originalUrl?: string; readonly url: string }, @Res() response: PageResponse): void {
      sendPage(response, request.originalUrl ?? request.url, forceRelease);
    }

    @Sse('events')
    events(): Observable<MessageEvent> {
      return this.board.view().pipe(map((data) => ({ data, retry: RECONNECT_MS })));
    }

    @Get('lock')
    async lock(@Query() query: Readonly<Record<string, unknown>>, @Res() response: PageResponse): Promise<void> {
      await answer(response, () => this.board.of(textOf(query['instance'])).inspect(textOf(query['key'])));
    }

    @Get('page/:file')
    file(@Param('file') file: string, @Res() response: PageResponse): void {
      sendFile(response, file);
    }
  }
  return LockBoardController;
}

function releaseController({ path }: ResolvedBoardOptions): Type {
  @Controller(path)
  class LockReleaseController {
    private readonly logger = new Logger('LockBoardModule');

    constructor(@Inject(BOARD) private readonly board: Board) {}

    /** Arguments are in the query, where the access log of the application keeps them and no body parser is needed. */
    @Post('force-release')
    async forceRelease(
      @Headers() headers: RequestHeaders,
      @Query() query: Readonly<Record<string, unknown>>,
      @Res() response: PageResponse,
    ): Promise<void> {
      const foreign = foreignRequest(headers);
      if (foreign !== undefined) return sendAnswer(response, 403, { message: `Refused, because ${foreign}.` });
      const [instance, key, fence] = [textOf(query['instance']), textOf(query['key']), Number(textOf(query['fence']))];
      if (key === '' || !Number.isSafeInteger(fence) || fence <= 0) {
        return sendAnswer(response, 400, { message: 'A forced release needs the key of a lock and the fence of its holder.' });
      }
      await answer(response, async () => {
        const released = await this.board.of(instance).forceRelease(key, fence);
        if (released) this.logger.warn(`Lock '${key}' was taken away from its holder with fence ${fence} by an operator.`);
        return { released };
      });
    }
  }
  return LockReleaseController;
}

/** Errors of ours are told here: the application need not have a filter for them. */
async function answer(response: PageResponse, make: () => Promise<object>): Promise<void> {
  try {
    sendAnswer(response, 200, await make());
  } catch (error) {
    if (!isLockError(error)) throw error;
    sendAnswer(response, error.code === 'LOCK_STORE' || error.code === 'LOCK_CLOSED' ? 503 : 400, { message: messageOf(error) });
  }
}

/** A parameter that is given twice is none. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
