/** The slot of a Redis key in a Cluster: CRC16 (XMODEM) of its hash tag, or of the whole key, modulo 16,384. */
const SLOTS = 16_384;

export function slotOf(redisKey: string): number {
  const from = redisKey.indexOf('{') + 1;
  const to = redisKey.indexOf('}', from);
  const tag = from > 0 && to > from ? redisKey.slice(from, to) : redisKey;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}
