/** Everything of the nightly draw. */
import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { DrawController } from './draw.controller.js';
import { DrawService } from './draw.service.js';

@Module({ imports: [ScheduleModule.forRoot()], controllers: [DrawController], providers: [DrawService] })
export class DrawModule {}
