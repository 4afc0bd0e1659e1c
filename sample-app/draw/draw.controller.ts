/** What this instance has drawn, over HTTP. */
import { Controller, Get } from '@nestjs/common';
import { DrawService, type Draw } from './draw.service.js';

@Controller('draws')
export class DrawController {
  constructor(private readonly draws: DrawService) {}

  @Get()
  made(): readonly Draw[] {
    return this.draws.made();
  }
}
