/**
 * Lets the page be asked for with a slash at the end on Fastify too, as on Express. Fastify takes `/locks` and `/locks/` for two
 * addresses, unless it is told to ignore that slash.
 */
import { Get } from '@nestjs/common';
import type { HttpAdapterHost } from '@nestjs/core';

interface FastifyConfig {
  readonly ignoreTrailingSlash?: boolean;
  readonly routerOptions?: { readonly ignoreTrailingSlash?: boolean };
}

/** Makes `handler`, a method of a controller whose path is `path`, answer at both addresses. It must be called before Nest maps the routes. */
export function withTrailingSlash(controller: object, handler: string, path: string, host: HttpAdapterHost): void {
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
