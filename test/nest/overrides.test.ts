/** Methods and fields that hide a locked method, which the boot finds. */
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable, Logger, type DynamicModule, type Provider } from '@nestjs/common';
import { Locked, LockModule, LockUsageError } from '../../lib/index.js';
import { startApp } from './application.js';

afterEach(() => void jest.restoreAllMocks());

describe('a method without a lock that overrides a locked one', () => {
  class Base {
    @Locked('base')
    async run(): Promise<void> {}
  }

  @Injectable()
  class Careless extends Base {
    override async run(): Promise<void> {}
  }

  it('is named in a warning at boot', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await startApp({ providers: [Careless] });
    expect(warn.mock.calls.flat().filter((line) => String(line).includes('Careless.run overrides the locked method Base.run'))).toHaveLength(1);
  });

  it('is an error with strictOverrides', async () => {
    const strict = LockModule.forRoot({ embedded: true, strictOverrides: true });
    await expect(startApp({ providers: [Careless] }, strict)).rejects.toThrow('Careless.run overrides the locked method Base.run');
  });

  it('is fine when it is locked as well, or only inherited', async () => {
    class Careful extends Base {
      @Locked('careful')
      override async run(): Promise<void> {}
    }
    class Heir extends Base {}
    const strict = LockModule.forRoot({ embedded: true, strictOverrides: true });
    const app = await startApp({ providers: [Careful, Heir] }, strict);
    expect(app.get(Careful)).toBeInstanceOf(Careful);
  });

  describe('and is a field of the object', () => {
    @Injectable()
    class Hiding extends Base {
      override run = async (): Promise<void> => undefined;
    }
    const strict = (): DynamicModule => LockModule.forRoot({ embedded: true, strictOverrides: true });

    it('is named in a warning at boot, once for an object with several tokens', async () => {
      const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
      await startApp({ providers: [Hiding, { provide: 'same', useExisting: Hiding }] });
      const lines = warn.mock.calls.flat().filter((line) => String(line).includes('Hiding.run'));
      expect(lines).toEqual([
        'Hiding.run is a field that hides the locked method Base.run, and has no lock: its calls run side by side. Make it a method with a lock decorator.',
      ]);
    });

    it('is named with the nearest of the locked methods that it hides, and with no other', async () => {
      class Careful extends Base {
        @Locked('careful')
        override async run(): Promise<void> {}
      }
      @Injectable()
      class HidingBoth extends Careful {
        override run = async (): Promise<void> => undefined;
      }
      await expect(startApp({ providers: [HidingBoth] }, strict())).rejects.toThrow(/^HidingBoth\.run is a field that hides the locked method Careful\.run, [^.]*\. [^.]*\.$/);
    });

    it.each<[string, Provider]>([
      ['made by Nest', Hiding],
      ['made by a factory', { provide: 'hiding', useFactory: () => new Hiding() }],
      ['given as a value', { provide: 'hiding', useValue: new Hiding() }],
    ])('is an error with strictOverrides: of an object %s', async (_name, provider) => {
      const refused = startApp({ providers: [provider] }, strict());
      await expect(refused).rejects.toBeInstanceOf(LockUsageError);
      await expect(refused).rejects.toThrow('Hiding.run is a field that hides the locked method Base.run');
    });

    it('is fine when it is the locked method itself, also bound to its object, or no function', async () => {
      class Bound extends Base {
        constructor() {
          super();
          this.run = this.run.bind(this);
        }
      }
      class Same extends Base {
        override run = Base.prototype.run;
      }
      const other = Object.assign(new Base(), { run: 7 });
      const app = await startApp({ providers: [Bound, Same, { provide: 'other', useValue: other }] }, strict());
      await app.get(Bound).run();
    });
  });
});
