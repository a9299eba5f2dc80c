import { createHash, timingSafeEqual } from 'node:crypto'
import { EvaluationError } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { readPasswordHash } from '../../lib/password-hash-format.js'
import type { Scope } from '../../policy/action.js'
import { type NodePath, policyErrors } from '../../policy/problems.js'

const MIN_PASSWORD = 8
const MAX_PASSWORD = 128
const COLON = 0x3a
const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i

/** Presented credential: the user name as text, the bytes of the password, and the digest of `user:password`. */
export interface Presented {
  readonly username: string
  readonly password: Uint8Array
  readonly digest: Uint8Array
}

/** User with a password hash. */
export interface HashedCredential {
  readonly username: string
  readonly hash: string
}

/** Accepted credential: the digest of its `user:password`, or its password hash. Throws `EvaluationError`. */
export type Credential = (flow: Flow) => Uint8Array | HashedCredential

/**
 * Parses a Basic `Authorization` value (RFC 7617 2): base64 of `user:password`, split at the first colon. Undefined if invalid. Bytes are
 * compared, not decoded text, so that invalid UTF-8 equals only itself.
 */
export function presentedIn(authorization: string): Presented | undefined {
  const encoded = BASIC.exec(authorization)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  const colon = bytes.indexOf(COLON)
  if (colon === -1) return undefined
  // A copy, because small buffers share memory that would be sent to the thread as a whole.
  const password = Uint8Array.from(bytes.subarray(colon + 1))
  return { username: bytes.toString('utf8', 0, colon), password, digest: digestOf(bytes) }
}

/**
 * Compares with every plain credential, so that the time does not reveal which one matched. Hashes are returned unchecked, for this flow
 * only.
 */
export function comparePlain(
  presented: Presented,
  credentials: readonly Credential[],
  flow: Flow
): { readonly matches: boolean; readonly hashed: readonly HashedCredential[] } {
  let matches = false
  const hashed: HashedCredential[] = []
  for (const credential of credentials) {
    const known = credential(flow)
    if (!(known instanceof Uint8Array)) hashed.push(known)
    else if (timingSafeEqual(presented.digest, known)) matches = true
  }
  return { matches, hashed }
}

/** Compiles `user:password` or `user:hash`; no problem or error contains any of it. */
export function compilePair(source: string, at: NodePath, scope: Scope): Credential {
  const template = scope.template(source, at)
  if (template.constant !== undefined) return constantPair(template.constant, at, scope)
  const colon = colonInText(source)
  if (colon === -1) {
    if (!WHOLE.test(source)) {
      const message = 'a credential is user:password; write the ":" outside of ${…}, or one ${…} alone'
      scope.problem(at, policyErrors.CONFIG_INVALID, message)
    }
    return (flow) => credentialOf(template.text(flow))
  }
  // Problems of both halves have been reported with the whole text.
  const user = scope.services.expressions.template(source.slice(0, colon), scope.phase)
  const password = scope.services.expressions.template(source.slice(colon + 1), scope.phase)
  if (!user.ok || !password.ok) return NOBODY
  return (flow) => credentialOfHalves(user.value.text(flow), password.value.text(flow))
}

/** Compiles a user name with a password or a hash from separate fields. */
export function compileFields(
  { username, password, password_hash: hash }: HashedFields,
  at: NodePath,
  scope: Scope
): Credential {
  const user = scope.template(username, [...at, 'username'])
  if (user.constant !== undefined && (user.constant === '' || user.constant.includes(':'))) {
    scope.problem([...at, 'username'], policyErrors.CONFIG_INVALID, 'a user name is not empty and holds no ":"')
  }
  if ((password === undefined) === (hash === undefined)) {
    scope.problem(at, policyErrors.CONFIG_INVALID, 'a credential has a password or a password_hash, one of the two')
    return NOBODY
  }
  if (hash !== undefined) {
    const text = scope.template(hash, [...at, 'password_hash'])
    const refusal = text.constant === undefined ? undefined : refusalOfHash(text.constant)
    if (refusal !== undefined) scope.problem([...at, 'password_hash'], policyErrors.CONFIG_INVALID, refusal)
    return (flow) => hashedOf(user.text(flow), text.text(flow))
  }
  const secret = scope.template(password as string, [...at, 'password'])
  if (secret.constant !== undefined) {
    const read = readPasswordHash(secret.constant)
    const refusal =
      read.kind !== 'none'
        ? 'this is the hash of a password; write it as password_hash'
        : passwordFits(secret.constant)
          ? undefined
          : PASSWORD_LENGTH
    if (refusal !== undefined) scope.problem([...at, 'password'], policyErrors.CONFIG_INVALID, refusal)
  }
  if (user.constant !== undefined && secret.constant !== undefined)
    return constantDigest(`${user.constant}:${secret.constant}`)
  return (flow) => digestOfHalves(user.text(flow), secret.text(flow))
}

/** User with a password or a password hash. */
export interface HashedFields {
  readonly username: string
  readonly password?: string
  readonly password_hash?: string
}

/** Reads an htpasswd file: hashes by user, and for each invalid line its number with the reason, without its content. */
export function readHtpasswd(text: string): {
  readonly users: ReadonlyMap<string, string>
  readonly wrong: readonly string[]
} {
  const users = new Map<string, string>()
  const wrong: string[] = []
  for (const [i, line] of text
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const colon = line.indexOf(':')
    const hash = line.slice(colon + 1).trim()
    const refusal = colon < 1 ? 'a line is user:hash' : refusalOfHash(hash)
    const username = line.slice(0, colon)
    // For several lines of one user Apache uses the first.
    if (refusal === undefined) users.set(username, users.get(username) ?? hash)
    else wrong.push(`line ${i + 1}: ${refusal}`)
  }
  return { users, wrong }
}

const WHOLE = /^\$\{.*\}$/s
const PASSWORD_LENGTH = `a password has ${MIN_PASSWORD} to ${MAX_PASSWORD} characters`
const NOBODY: Credential = () => ({ username: '', hash: '' })

function constantPair(pair: string, at: NodePath, scope: Scope): Credential {
  const colon = pair.indexOf(':')
  const read = colon < 1 ? undefined : readPasswordHash(pair.slice(colon + 1))
  if (read?.kind === 'hash') {
    const known = { username: pair.slice(0, colon), hash: pair.slice(colon + 1) }
    return () => known
  }
  const refusal = read?.kind === 'refused' ? read.reason : refusalOf(pair)
  if (refusal !== undefined) scope.problem(at, policyErrors.CONFIG_INVALID, refusal)
  return constantDigest(pair)
}

function constantDigest(pair: string): Credential {
  const digest = digestOf(Buffer.from(pair, 'utf8'))
  return () => digest
}

function credentialOf(pair: string): Uint8Array | HashedCredential {
  const colon = pair.indexOf(':')
  return colon < 1 ? digestOfChecked(pair) : credentialOfHalves(pair.slice(0, colon), pair.slice(colon + 1))
}

function credentialOfHalves(user: string, password: string): Uint8Array | HashedCredential {
  return readPasswordHash(password).kind === 'none' ? digestOfHalves(user, password) : hashedOf(user, password)
}

function hashedOf(username: string, hash: string): HashedCredential {
  const refusal = refusalOfHash(hash)
  if (refusal !== undefined) throw new EvaluationError('failed', refusal)
  return { username, hash }
}

function refusalOfHash(hash: string): string | undefined {
  const read = readPasswordHash(hash)
  if (read.kind === 'hash') return undefined
  return read.kind === 'refused' ? read.reason : 'this is no hash of a password; make one with "sluice hash-password"'
}

function digestOfHalves(user: string, password: string): Uint8Array {
  // Otherwise the split between both halves would be ambiguous.
  if (user.includes(':')) throw new EvaluationError('failed', 'the user name of a credential holds a ":"')
  return digestOfChecked(`${user}:${password}`)
}

function digestOfChecked(pair: string): Uint8Array {
  const refusal = refusalOf(pair)
  if (refusal !== undefined) throw new EvaluationError('failed', refusal)
  return digestOf(Buffer.from(pair, 'utf8'))
}

function refusalOf(pair: string): string | undefined {
  const colon = pair.indexOf(':')
  if (colon < 1) return 'a credential is user:password'
  return passwordFits(pair.slice(colon + 1)) ? undefined : PASSWORD_LENGTH
}

function passwordFits(password: string): boolean {
  return password.length >= MIN_PASSWORD && password.length <= MAX_PASSWORD
}

function digestOf(bytes: Uint8Array): Uint8Array {
  return createHash('sha256').update(bytes).digest()
}

/** Returns the index of the first colon outside of `${…}`, or -1. */
function colonInText(source: string): number {
  for (let i = 0; i < source.length; i++) {
    if (source[i] === ':') return i
    if (source.startsWith('${', i)) i = endOfExpression(source, i + 2)
  }
  return -1
}

/** Returns the index of the closing brace of an expression, ignoring braces in strings. */
function endOfExpression(source: string, start: number): number {
  let depth = 1
  let quote = ''
  for (let i = start; i < source.length; i++) {
    const character = source[i] as string
    if (quote !== '') {
      if (character === '\\') i++
      else if (character === quote) quote = ''
    } else if (character === '"' || character === "'") quote = character
    else if (character === '{') depth++
    else if (character === '}' && --depth === 0) return i
  }
  return source.length
}
