/** Lets operators of the shop see the board: HTTP Basic, with the password of BOARD_PASSWORD. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Injectable, UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';

const OPERATOR = 'operator';
/** Where the sample runs without any settings; it listens on this machine only. */
const DEFAULT_PASSWORD = 'holdfast';

interface Request {
  readonly headers: { readonly authorization?: string };
}

interface Response {
  header(name: string, value: string): unknown;
}

@Injectable()
export class OperatorGuard implements CanActivate {
  constructor(private readonly config: ConfigService) {}

  /** Asks who did not say who he is; refuses, with 403, who is not an operator. */
  canActivate(context: ExecutionContext): boolean {
    const http = context.switchToHttp();
    const [scheme, credentials] = http.getRequest<Request>().headers.authorization?.split(' ') ?? [];
    if (scheme !== 'Basic' || credentials === undefined) {
      http.getResponse<Response>().header('WWW-Authenticate', 'Basic realm="shop"');
      throw new UnauthorizedException('The board is for operators.');
    }
    const password = this.config.get('BOARD_PASSWORD', DEFAULT_PASSWORD);
    return same(Buffer.from(credentials, 'base64').toString(), `${OPERATOR}:${password}`);
  }
}

/** Takes as long for a near miss as for any other. */
function same(given: string, expected: string): boolean {
  const [one, other] = [given, expected].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(one!, other!);
}
