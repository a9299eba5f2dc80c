import { randomBytes, scrypt } from 'node:crypto'
import { CodedError } from '../../lib/coded-error.js'
import { isObject } from '../../lib/json.js'
import { Sealer, sealKey } from '../../lib/seal.js'

/** How a key follows from a passphrase (RFC 7914), and the id of the key, by which a wrong passphrase is told. */
export interface PassphraseParameters {
  readonly kdf: 'scrypt'
  /** Base64 of 16 bytes; new for each document. */
  readonly salt: string
  /** N, a power of two. */
  readonly cost: number
  /** r */
  readonly block_size: number
  /** p */
  readonly parallelization: number
  readonly cipher: 'aes-256-gcm'
  readonly key_id: string
}

const SALT_BYTES = 16
const KEY_BYTES = 32
/** 128 MiB and a third of a second for each guess. */
const CHOSEN = 2 ** 17
const SHAPE = { block_size: 8, parallelization: 1 } as const
/** A document may ask for less memory than this many bytes, so that a hostile one cannot ask for all. */
const MOST_MEMORY = 1024 * 1024 * 1024
export const LEAST_COST = 2 ** 14
const LEAST_PASSPHRASE = 8

/** A key from a passphrase for a new document, by scrypt with N = `cost`. Fails with a CodedError `PASSPHRASE_SHORT`. */
export async function newPassphraseKey(
  passphrase: string,
  cost: number = CHOSEN
): Promise<{ readonly parameters: PassphraseParameters; readonly sealer: Sealer }> {
  if (passphrase.length < LEAST_PASSPHRASE) {
    throw new CodedError('PASSPHRASE_SHORT', `a passphrase has at least ${LEAST_PASSPHRASE} characters`)
  }
  const derivation = { ...SHAPE, cost, salt: randomBytes(SALT_BYTES).toString('base64') }
  const sealer = await derive(passphrase, derivation)
  return { parameters: { kdf: 'scrypt', ...derivation, cipher: 'aes-256-gcm', key_id: sealer.keyId }, sealer }
}

/** The sealer of a document. Fails with a CodedError `PASSPHRASE_WRONG`. */
export async function openPassphraseKey(passphrase: string, parameters: PassphraseParameters): Promise<Sealer> {
  const sealer = await derive(passphrase, parameters)
  if (sealer.keyId !== parameters.key_id) {
    throw new CodedError('PASSPHRASE_WRONG', 'the passphrase does not open the secrets of this document')
  }
  return sealer
}

/** The parameters as a document has them, or what is wrong with them. */
export function readParameters(data: unknown): PassphraseParameters | string {
  if (!isObject(data)) return 'must be a map'
  const { kdf, salt, cost, block_size, parallelization, cipher, key_id } = data
  if (kdf !== 'scrypt' || cipher !== 'aes-256-gcm') return 'must have kdf scrypt and cipher aes-256-gcm'
  if (typeof salt !== 'string' || Buffer.from(salt, 'base64').length < SALT_BYTES) return 'has no salt of 16 bytes'
  if (typeof key_id !== 'string') return 'has no key_id'
  const [n, r, p] = [cost, block_size, parallelization] as number[]
  if (![n, r, p].every((number) => Number.isSafeInteger(number) && (number as number) >= 1)) {
    return 'must have cost, block_size and parallelization, whole numbers'
  }
  const power = Number.isInteger(Math.log2(n as number))
  const memory = 128 * (n as number) * (r as number)
  if (!power || (n as number) < LEAST_COST || memory > MOST_MEMORY || (p as number) > 16) {
    return `must have a cost that is a power of two from ${LEAST_COST} and needs at most 1 GiB`
  }
  return data as unknown as PassphraseParameters
}

type Derivation = Pick<PassphraseParameters, 'salt' | 'cost' | 'block_size' | 'parallelization'>

function derive(passphrase: string, { salt, cost, block_size, parallelization }: Derivation): Promise<Sealer> {
  // Two keyboards may write the same letter in two ways.
  const text = passphrase.normalize('NFKC')
  const options = { N: cost, r: block_size, p: parallelization, maxmem: 2 * MOST_MEMORY }
  return new Promise((resolve, reject) => {
    scrypt(text, Buffer.from(salt, 'base64'), KEY_BYTES, options, (error, key) => {
      if (error === null) resolve(new Sealer(sealKey(key)))
      else reject(error)
    })
  })
}
