import { createPublicKey, createVerify, type KeyObject } from 'node:crypto'
import { type JsonObject, readObject, textMember } from '../json.js'
import {
  ACCEPTED,
  hashed,
  keyFromBase64,
  type Scheme,
  sameSecret,
  signatureFromBase64,
  single,
  staleness,
  TOLERANCE
} from '../scheme.js'

/** Secret in a field. Authenticates the sender, not the content. */
export function sharedToken(header: string): Scheme {
  return (secret) =>
    ({ headers }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      return sameSecret(secret, found.value) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
}

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i
const SEPARATOR = '::'

/** User name and password (RFC 7617); the secret is `user::password`. Authenticates the sender, not the content. */
export const basicCredentials: Scheme = (secret) => {
  const split = secret.indexOf(SEPARATOR)
  if (split < 1) return 'must be a user name and a password, parted by "::"'
  const pair = `${secret.slice(0, split)}:${secret.slice(split + SEPARATOR.length)}`
  const expected = Buffer.from(pair, 'utf8').toString('base64')
  return ({ headers }) => {
    const found = single(headers, 'authorization')
    if (typeof found === 'string') return found
    const given = BASIC.exec(found.value)?.[1]
    return given !== undefined && sameSecret(expected, given) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

interface EcdsaOptions {
  readonly header: string
  readonly timestamp: string
}

/** ECDSA with SHA-256 over timestamp and body; the secret is the sender's public key in base64 DER. */
export function ecdsa({ header, timestamp }: EcdsaOptions): Scheme {
  return (secret) => {
    const key = publicKey(secret)
    if (key === undefined) return 'must be the base64 form of an ECDSA public key'
    return async ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      const time = single(headers, timestamp)
      if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
      const stale = staleness(time.value, now, TOLERANCE)
      if (stale !== undefined) return stale
      const signature = signatureFromBase64(found.value)
      if (signature === undefined) return 'SIGNATURE_INVALID'
      const verifier = createVerify('sha256')
      await hashed(verifier, [time.value, body])
      return verifier.verify(key, signature) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

function publicKey(base64: string): KeyObject | undefined {
  const bytes = keyFromBase64(base64)
  if (bytes === undefined) return undefined
  try {
    const key = createPublicKey({ key: Buffer.from(bytes), format: 'der', type: 'spki' })
    return key.asymmetricKeyType === 'ec' ? key : undefined
  } catch {
    // OpenSSL reports invalid keys in many ways.
    return undefined
  }
}

/** Maximum age (ms). Amazon recommends to drop messages after an hour; retries keep the timestamp of the first attempt. */
const SNS_TOLERANCE = 3_600_000
/** Signed members of a confirmation. */
const CONFIRMATION = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
/** Signed members of each message type, in order. */
const SIGNED: Readonly<Record<string, readonly string[]>> = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: CONFIRMATION,
  UnsubscribeConfirmation: CONFIRMATION
}
const MEMBERS = ['Signature', 'SignatureVersion', 'SigningCertURL', ...new Set(Object.values(SIGNED).flat())]
const OPTIONAL = 'Subject'
const ALGORITHMS: Readonly<Record<string, 'sha1' | 'sha256'>> = { '1': 'sha1', '2': 'sha256' }

/** Amazon SNS: RSA over named members of the JSON body, with the key of a certificate named in the body. */
export const sns: Scheme =
  () =>
  async ({ body, now }, keys) => {
    const message = await readObject(body, MEMBERS)
    if (message === undefined) return 'BODY_INVALID'
    const signature = signatureFromBase64(textMember(message, 'Signature') ?? '')
    const version = textMember(message, 'SignatureVersion') ?? ''
    const algorithm = Object.hasOwn(ALGORITHMS, version) ? ALGORITHMS[version] : undefined
    const url = textMember(message, 'SigningCertURL')
    if (signature === undefined || algorithm === undefined || url === undefined) return 'SIGNATURE_MISSING'
    const text = canonical(message)
    if (text === undefined) return 'BODY_INVALID'
    const stale = staleness(textMember(message, 'Timestamp'), now, SNS_TOLERANCE)
    if (stale !== undefined) return stale
    const key = await keys.certificate(url, now)
    if (typeof key === 'string') return key
    const verifier = createVerify(algorithm)
    await hashed(verifier, [text])
    return verifier.verify(key, signature) ? ACCEPTED : 'SIGNATURE_INVALID'
  }

/** Returns name and value of each signed member, a line each; undefined if one is missing. */
function canonical(message: JsonObject): string | undefined {
  const type = textMember(message, 'Type') ?? ''
  const names = Object.hasOwn(SIGNED, type) ? SIGNED[type] : undefined
  if (names === undefined) return undefined
  let text = ''
  for (const name of names) {
    const value = message.get(name)
    if (typeof value === 'string') text += `${name}\n${value}\n`
    else if (name !== OPTIONAL || (value !== undefined && value !== null)) return undefined
  }
  return text
}
