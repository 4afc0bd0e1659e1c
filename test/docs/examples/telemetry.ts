/** The examples of docs/telemetry.md. */
import { Controller, Get } from '@nestjs/common';
import { HealthCheck, HealthCheckService } from '@nestjs/terminus';
import { LockModule } from 'nestjs-holdfast';
import { LockTelemetryModule } from 'nestjs-holdfast/telemetry';
import { LockHealthIndicator } from 'nestjs-holdfast/terminus';

export const measured = (redis: string) => ({
  imports: [LockModule.forRoot({ redis }), LockTelemetryModule.forRoot()]
});

@Controller('health')
export class HealthController {
  constructor(private readonly health: HealthCheckService, private readonly lockHealth: LockHealthIndicator) {}

  @Get() @HealthCheck()
  check() {
    return this.health.check([() => this.lockHealth.pingCheck('locks')]);
  }
}
