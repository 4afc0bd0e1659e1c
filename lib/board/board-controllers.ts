/**
 * The routes of a board. Their controller classes are made for each board, because Nest reads paths and guards from classes.
 *
 * The handlers write to the response themselves, so that an application that wraps the results of its handlers does not break
 * the page.
 */
import { Controller, Get, Headers, Inject, Logger, Param, Post, Query, Req, Res, UseGuards, VERSION_NEUTRAL, type ControllerOptions, type Type } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Observable } from 'rxjs';
import { isLockError, messageOf, oneLine } from '../core/port/errors.js';
import { sendAnswer, sendFile, sendPage, type PageResponse } from './board-page.js';
import type { ResolvedBoardOptions } from './board-options.js';
import { sendEvents, type EventResponse } from './event-stream.js';
import { foreignRequest, type RequestHeaders } from './same-origin.js';
import { withTrailingSlash } from './trailing-slash.js';
import type { WatchedLocks } from './watched-locks.js';

/** What the routes need of the board. */
export interface Board {
  /** The views of all instances, as JSON. */
  view(): Observable<string>;
  /** The locks of one lock module. @throws LockUsageError when the board does not show this instance */
  of(instance: string): WatchedLocks;
}

export const BOARD = Symbol.for('nestjs-holdfast:board');

/** The controllers of a board, with its guards. The one with the route that takes locks away is there only with `forceRelease`. */
export function boardControllers(options: ResolvedBoardOptions): Type[] {
  const classes = options.forceRelease ? [lookController(options), releaseController(options)] : [lookController(options)];
  for (const made of classes) UseGuards(...options.guards)(made);
  return classes;
}

/** The routes are those of no version: a browser that is given the address of the page names no version of the application's API. */
function routesAt(path: string): ControllerOptions {
  return { path, version: VERSION_NEUTRAL };
}

function lookController({ path, forceRelease }: ResolvedBoardOptions): Type {
  @Controller(routesAt(path))
  class LockBoardController {
    constructor(
      @Inject(BOARD) private readonly board: Board,
      @Inject(HttpAdapterHost) host: HttpAdapterHost,
    ) {
      withTrailingSlash(LockBoardController.prototype, 'page', path, host);
    }

    @Get()
    page(@Req() request: { readonly originalUrl?: string; readonly url: string }, @Res() response: PageResponse): void {
      sendPage(response, request.originalUrl ?? request.url, forceRelease);
    }

    @Get('events')
    events(@Res() response: EventResponse): void {
      sendEvents(response, this.board.view());
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
  @Controller(routesAt(path))
  class LockReleaseController {
    private readonly logger = new Logger('LockBoardModule');

    constructor(@Inject(BOARD) private readonly board: Board) {}

    /** The arguments are in the query, so that the access log of the application has them and no body parser is needed. */
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
        if (released) this.logger.warn(oneLine(`Lock '${key}' was taken away from its holder with fence ${fence} by an operator.`));
        return { released };
      });
    }
  }
  return LockReleaseController;
}

/** Sends the result of `make`, or its LockError. The application need not have an exception filter for the latter. */
async function answer(response: PageResponse, make: () => Promise<object>): Promise<void> {
  try {
    sendAnswer(response, 200, await make());
  } catch (error) {
    if (!isLockError(error)) throw error;
    sendAnswer(response, error.code === 'LOCK_STORE' || error.code === 'LOCK_CLOSED' ? 503 : 400, { message: messageOf(error) });
  }
}

/** The text of a query parameter; '' when it is missing or was given twice. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
