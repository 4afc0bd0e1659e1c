/** The exports of `nestjs-holdfast/board`: a page that shows who holds which lock and who waits for it. */
export { LockBoardModule } from './lock-board.module.js';
export type { LockBoardOptions } from './board-options.js';
