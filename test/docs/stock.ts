import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-holdfast';
import { database, Transactional } from './transactional.js';

@Injectable()
export class Stock {
  @Locked('stock:<0>') // above: the lock is taken first and given back last
  @Transactional()
  async add(article: string): Promise<void> {
    database.write(article, database.read(article) + 1);
  }

  @Transactional() // above: the transaction is committed after the lock was given back
  @Locked('stock:<0>')
  async addAndLose(article: string): Promise<void> {
    database.write(article, database.read(article) + 1);
  }
}
