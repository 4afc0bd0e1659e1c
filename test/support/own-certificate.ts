/**
 * A certificate that a test makes for 127.0.0.1 and signs itself, as a company does that is its own authority. Node can sign and cannot
 * make certificates, so its few fields are written here in DER.
 */
import { generateKeyPairSync, sign } from 'node:crypto';

export interface OwnCertificate {
  /** Both as PEM. The certificate is its own authority. */
  readonly cert: string;
  readonly key: string;
}

const [INTEGER, BITS, OCTETS, OID, TEXT, TIME, SEQUENCE, SET] = [0x02, 0x03, 0x04, 0x06, 0x0c, 0x17, 0x30, 0x31];
const TRUE = Buffer.from([0x01, 0x01, 0xff]);
const ECDSA_WITH_SHA256 = '2a8648ce3d040302';
const [COMMON_NAME, SUBJECT_ALTERNATIVES, BASIC_CONSTRAINTS] = ['550403', '551d11', '551d13'];
const DAY_MS = 86_400_000;

export function makeCertificate(name = 'holdfast test'): OwnCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = der(SEQUENCE, oid(ECDSA_WITH_SHA256));
  const subject = der(SEQUENCE, der(SET, der(SEQUENCE, oid(COMMON_NAME), der(TEXT, Buffer.from(name)))));
  const validity = der(SEQUENCE, time(Date.now() - DAY_MS), time(Date.now() + DAY_MS));
  const alternatives = extension(SUBJECT_ALTERNATIVES, der(SEQUENCE, der(0x87, Buffer.from([127, 0, 0, 1])), der(0x82, Buffer.from('localhost'))));
  const authority = extension(BASIC_CONSTRAINTS, der(SEQUENCE, TRUE));
  const content = der(
    SEQUENCE, der(0xa0, der(INTEGER, Buffer.from([2]))), der(INTEGER, Buffer.from([1])), algorithm, subject, validity, subject,
    publicKey.export({ type: 'spki', format: 'der' }), der(0xa3, der(SEQUENCE, alternatives, authority)),
  );
  const signature = sign('sha256', content, privateKey);
  const whole = der(SEQUENCE, content, algorithm, der(BITS, Buffer.from([0]), signature));
  const lines = whole.toString('base64').match(/.{1,64}/g)!.join('\n');
  return { cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function oid(hex: string): Buffer {
  return der(OID, Buffer.from(hex, 'hex'));
}

function extension(id: string, value: Buffer): Buffer {
  return der(SEQUENCE, oid(id), der(OCTETS, value));
}

/** UTCTime: two digits each, from the year to the second. */
function time(at: number): Buffer {
  return der(TIME, Buffer.from(`${new Date(at).toISOString().replace(/\D/g, '').slice(2, 14)}Z`));
}
