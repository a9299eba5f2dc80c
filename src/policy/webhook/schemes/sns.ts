import { createVerify } from 'node:crypto'
import { ACCEPTED, type Finding } from '../finding.js'
import { type JsonObject, readObject, textMember } from '../json.js'
import { signatureFromBase64 } from '../mac.js'
import type { Scheme, SenderKeys } from '../scheme.js'
import { staleness } from '../timestamp.js'

/** Amazon asks to drop what is older than an hour; its retries keep the timestamp of the first attempt. Milliseconds. */
const SNS_TOLERANCE = 3_600_000
const CONFIRMATION = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']
/** What is signed of each type of message, in this order. */
const SIGNED: Readonly<Record<string, readonly string[]>> = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: CONFIRMATION,
  UnsubscribeConfirmation: CONFIRMATION
}
const OPTIONAL = 'Subject'
const ALGORITHMS: Readonly<Record<string, 'sha1' | 'sha256'>> = { '1': 'sha1', '2': 'sha256' }

/** Amazon SNS: RSA over named members of the JSON body, with the key of a certificate that the body names. */
export const sns: Scheme =
  () =>
  ({ body, now }, keys) => {
    const message = readObject(body)
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
    return verified(text, algorithm, signature, url, now, keys)
  }

async function verified(
  text: string,
  algorithm: 'sha1' | 'sha256',
  signature: Uint8Array,
  url: string,
  now: number,
  keys: SenderKeys
): Promise<Finding> {
  const key = await keys.certificate(url, now)
  if (typeof key === 'string') return key
  return createVerify(algorithm).update(text, 'utf8').verify(key, signature) ? ACCEPTED : 'SIGNATURE_INVALID'
}

/** Name and value of each signed member, a line each; undefined when one is missing. */
function canonical(message: JsonObject): string | undefined {
  const type = textMember(message, 'Type') ?? ''
  const names = Object.hasOwn(SIGNED, type) ? SIGNED[type] : undefined
  if (names === undefined) return undefined
  let text = ''
  for (const name of names) {
    const value = message[name]
    if (typeof value === 'string') text += `${name}\n${value}\n`
    else if (name !== OPTIONAL || (value !== undefined && value !== null)) return undefined
  }
  return text
}
