/** Handlers that answer HTTP requests: routes, streams of events, resolvers. */
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { Controller, Get, HttpCode, Inject, Injectable, Param, Sse, UseGuards, type INestApplication, type Type } from '@nestjs/common';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { hungUp } from './hung-up.js';
import { ClerksOnly, ForClerks, type Call, type Kind, type Variant, type Work } from './variants.js';

const all = ['singleton', 'request', 'transient'] as const;

/** A request on a connection of its own; the answer is its status and body. */
function requested(app: INestApplication, path: string): Call {
  const server: http.Server = app.getHttpServer();
  const { port } = server.address() as AddressInfo;
  const asked = http.get({ port, host: '127.0.0.1', path, agent: false, headers: { 'apollo-require-preflight': 'yes' } });
  const answer = new Promise<unknown>((resolve) => {
    asked.on('error', (error) => resolve({ hungUp: error.message }));
    asked.on('response', async (response) => {
      const chunks: Buffer[] = [];
      response.on('error', (error) => resolve({ hungUp: error.message }));
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode, body: Buffer.concat(chunks).toString() }));
    });
  });
  return { answer, leave: () => hungUp(server, () => asked.destroy()) };
}

const listening = async (app: INestApplication): Promise<INestApplication> => app.listen(0, '127.0.0.1').then(() => app);

function controller(route: (path: string) => MethodDecorator): (variant: Variant) => Type {
  return ({ name, scope, above, below, work }) => {
    @Controller({ path: name, scope })
    class Routes {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @route(':id')
      @ForClerks()
      @UseGuards(ClerksOnly)
      @HttpCode(202)
      @below
      handle(@Param('id') id: string): ReturnType<Work['run']> {
        return this.work.run(id);
      }
    }
    return Routes;
  };
}

const routes = {
  lifetimes: all,
  guarded: true,
  placeholder: '<0>',
  method: 'handle',
  modules: (_variants, handlers) => ({ controllers: handlers }),
  start: async (app) => {
    await listening(app);
    return { call: ({ name }, id) => requested(app, `/${name}/${id}`) };
  },
} satisfies Partial<Kind>;

export const httpController: Kind = { ...routes, name: 'an HTTP controller', returns: { promise: 'goes on', observable: 'ends' }, handler: controller(Get) };

export const sseController: Kind = {
  ...routes, name: 'a controller that sends events', returns: { observable: 'ends' }, handler: controller((path) => Sse(path)),
};

export const graphqlResolver: Kind = {
  name: 'a GraphQL resolver',
  lifetimes: all,
  returns: { promise: 'goes on', observable: 'goes on' },
  guarded: true,
  placeholder: '<0>',
  method: 'handle',
  handler: ({ name, scope, above, below, work }) => {
    @Resolver()
    @Injectable({ scope })
    class Answers {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @Query(() => String, { name })
      @ForClerks()
      @UseGuards(ClerksOnly)
      @below
      handle(@Args('id', { type: () => String }) id: string): ReturnType<Work['run']> {
        return this.work.run(id);
      }
    }
    return Answers;
  },
  modules: (_variants, handlers) => ({
    imports: [GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true, includeStacktraceInErrorResponses: false })],
    providers: handlers,
  }),
  start: async (app) => {
    await listening(app);
    return { call: ({ name }, id) => requested(app, `/graphql?query=${encodeURIComponent(`{ ${name}(id: "${id}") }`)}`) };
  },
};
