/** Everything of the flash sale. */
import { Module } from '@nestjs/common';
import { OrderController } from './order.controller.js';
import { OrderService } from './order.service.js';
import { PaymentService } from './payment.service.js';

@Module({ controllers: [OrderController], providers: [OrderService, PaymentService] })
export class SaleModule {}
