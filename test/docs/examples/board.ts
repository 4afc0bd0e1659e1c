/** The example of docs/board.md. */
import { Injectable, Module, type CanActivate } from '@nestjs/common';
import { LockModule } from 'nestjs-holdfast';
import { LockBoardModule } from 'nestjs-holdfast/board';

@Injectable()
class OperatorGuard implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

@Module({
  imports: [
    LockModule.forRoot({ redis: process.env.REDIS_URL }),
    LockBoardModule.forRoot({ path: '/locks', guards: [OperatorGuard], forceRelease: true }),
  ],
})
export class AppModule {}
