/** The page of the board is what its sources are. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { PAGE_FILES } from '../../lib/board/page.generated.js';

describe('page.generated.ts', () => {
  it('is what scripts/build-board.mjs makes of the files in page/', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/build-board.mjs', '--check'], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('names no address but its own files, and makes no markup of text', () => {
    for (const [name, text] of Object.entries(PAGE_FILES)) {
      const addresses = [...text.matchAll(/https?:\/\/[^\s'"]+/g)].map(([address]) => address).filter((address) => address !== 'http://www.w3.org/2000/svg');
      expect({ name, addresses }).toEqual({ name, addresses: [] });
      expect({ name, found: /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/.test(text) }).toEqual({ name, found: false });
    }
  });
});
