/**
 * The routes of a board. Their controller classes are made for each board, because Nest reads paths and guards from classes.
 *
 * The handlers write to the response themselves, so that an application that wraps the results of its handlers does not break
 * the page.
 */
import {
  Controller, Get, Headers, Inject, Logger, Param, Post, Query, Req, Res, UseGuards, VERSION_NEUTRAL, type ControllerOptions, type Type,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { isLockError, messageOf, oneLine } from '../core/port/errors.js';
import { Board } from './board.js';
import { sendAnswer, sendFile, sendPage, type PageResponse } from './board-page.js';
import type { ResolvedBoardOptions } from './board-options.js';
import { sendEvents, type EventResponse } from './event-stream.js';

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
      @Inject(Board) private readonly board: Board,
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

    constructor(@Inject(Board) private readonly board: Board) {}

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

// Fastify takes `/locks` and `/locks/` for two addresses, unless it is told to ignore that slash. The page answers at both, as on Express.

interface FastifyConfig {
  readonly ignoreTrailingSlash?: boolean;
  readonly routerOptions?: { readonly ignoreTrailingSlash?: boolean };
}

/** Makes `handler`, a method of a controller whose path is `path`, answer at both addresses. It must be called before Nest maps the routes. */
function withTrailingSlash(controller: object, handler: string, path: string, host: HttpAdapterHost): void {
  if (path.replaceAll('/', '') === '' || !tellsThemApart(host)) return;
  // Nest takes one slash off the end of a path.
  Get(['', '//'])(controller, handler, Object.getOwnPropertyDescriptor(controller, handler)!);
}

/** Where Fastify ignores the slash, a second route would be the same one again, and the boot would fail. */
function tellsThemApart({ httpAdapter }: HttpAdapterHost): boolean {
  // An application without HTTP has no adapter.
  if (httpAdapter?.getType?.() !== 'fastify') return false;
  const { initialConfig = {} } = httpAdapter.getInstance<{ readonly initialConfig?: FastifyConfig }>();
  return initialConfig.ignoreTrailingSlash !== true && initialConfig.routerOptions?.ignoreTrailingSlash !== true;
}

// A request that takes a lock away must have been sent by the board's own page, because other sites can make a browser send requests with the
// operator's credentials.

/** The headers of a request as Node gives them, with names in lower case. */
type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The header that the board's page sends. A page of another origin can only send it if the server allows that in a CORS preflight. */
const OWN_HEADER = 'x-holdfast-board';

/** Why the request does not come from the board's page, as the end of a sentence; undefined when it does. */
function foreignRequest(headers: RequestHeaders): string | undefined {
  if (headers[OWN_HEADER] === undefined) return `the header ${OWN_HEADER} is missing`;
  // An application that allows every origin by CORS also allows the header in preflights, so the header alone proves too little.
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' ? undefined : `it was sent by another site (${String(site)})`;
  const { origin, host } = headers;
  if (origin === undefined) return undefined;
  return hostOf(String(origin)) === host ? undefined : `it was sent by ${String(origin)}`;
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
