/** The wallets over HTTP. */
import { Body, Controller, Get, Param, ParseIntPipe, Post, Put } from '@nestjs/common';
import { WalletService } from './wallet.service.js';

@Controller('wallets/:wallet')
export class WalletController {
  constructor(private readonly wallets: WalletService) {}

  @Post('transfers')
  async transfer(
    @Param('wallet', ParseIntPipe) from: number,
    @Body('to', ParseIntPipe) to: number,
    @Body('cents', ParseIntPipe) cents: number,
  ): Promise<void> {
    await this.wallets.transfer(from, to, cents);
  }

  @Post('transfers-without-lock')
  async transferWithoutLock(
    @Param('wallet', ParseIntPipe) from: number,
    @Body('to', ParseIntPipe) to: number,
    @Body('cents', ParseIntPipe) cents: number,
  ): Promise<void> {
    await this.wallets.transferWithoutLock(from, to, cents);
  }

  @Get()
  async balance(@Param('wallet', ParseIntPipe) wallet: number): Promise<{ cents: number }> {
    return { cents: await this.wallets.balance(wallet) };
  }

  @Put()
  async setBalance(
    @Param('wallet', ParseIntPipe) wallet: number,
    @Body('cents', ParseIntPipe) cents: number,
  ): Promise<void> {
    await this.wallets.setBalance(wallet, cents);
  }
}
