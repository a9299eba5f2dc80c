import { isAbsolute } from 'node:path'
import { EvaluationError, type Template } from '../../expression/expression.js'
import { defineErrors } from '../../lib/errors.js'
import type { Scope } from '../../policy/action.js'
import { keyFolders, liesIn } from '../../policy/key-files.js'
import { type NodePath, policyErrors } from '../../policy/problems.js'
import { checkUrl } from '../../policy/values.js'
import type { JwtConfig, KeysConfig, SourcesConfig } from './config.js'
import type { KeySet } from './jwks.js'
import {
  heldKeys,
  type KeySetPlaces,
  type KeySource,
  keySets,
  loadedKeys,
  readHeldKeys,
  readSharedSecret
} from './key-sources.js'

/** Problem codes of the action jwt-validation. */
export const jwtProblems = defineErrors({
  KEYS_MISSING: {
    text: 'An HMAC algorithm is allowed and no source of keys holds a shared secret.',
    help: 'Add shared_secrets, or remove HS256, HS384 and HS512 from allowed_algorithms.'
  },
  KEYS_UNPROTECTED: { text: 'Keys come over plain HTTP and can be replaced on their way.', help: 'Use https.' },
  KEYS_FORBIDDEN: {
    text: 'A file of keys lies outside of the folders that policies may read.',
    help: 'Move the file, or name its folder in jwt.key_folders.'
  }
})

const KEYS: NodePath = ['jws', 'keys']

/** Key sources in document order, and whether tokens must name their key. */
export interface CompiledKeys {
  readonly sources: readonly KeySource[]
  readonly kidNeeded: boolean
}

/** Compiles `jws`. Reports keys that can never verify a signature. `chosen`: cache for URLs with `${…}`. */
export function compileKeys(
  { keys, allowed_algorithms }: JwtConfig['jws'],
  chosen: KeySetPlaces,
  scope: Scope
): CompiledKeys {
  const compiled: KeySource[] = []
  let kidNeeded = false
  let secrets = false
  for (const [group, at] of each<KeysConfig>(keys, KEYS)) {
    for (const [sources, below] of each<SourcesConfig>(group.sources, [...at, 'sources'])) {
      compiled.push(...compileSources(sources, below, chosen, scope))
      secrets ||= sources.inline !== undefined || sources.files !== undefined || sources.shared_secrets !== undefined
    }
    for (const [identification] of each(group.identification ?? [], at)) {
      kidNeeded ||= identification.token_claims.includes('kid') === true
    }
  }
  if (!secrets && allowed_algorithms.some((name) => name.startsWith('HS'))) {
    const message = 'HS256, HS384 and HS512 take keys from shared_secrets, inline or files, never from a URL'
    scope.warn(['jws', 'allowed_algorithms'], jwtProblems.KEYS_MISSING, message)
  }
  return { sources: compiled, kidNeeded }
}

/** Returns a value, or each of a list, with its path. */
function each<T>(value: T | readonly T[], at: NodePath): readonly (readonly [T, NodePath])[] {
  if (!Array.isArray(value)) return [[value as T, at]]
  return (value as readonly T[]).map((item, i) => [item, [...at, i]] as const)
}

function compileSources(sources: SourcesConfig, at: NodePath, chosen: KeySetPlaces, scope: Scope): KeySource[] {
  const { additional_jkus = [], inline = [], files = [], shared_secrets = [] } = sources
  if (Object.keys(sources).length === 0)
    scope.problem(at, policyErrors.CONFIG_INVALID, `\`${at.join('.')}\` names no source of keys`)
  return [
    ...additional_jkus.map((url, i) => compileUrl(url, [...at, 'additional_jkus', i], chosen, scope)),
    ...inline.map((keys, i) => compileInline(keys, [...at, 'inline', i], scope)),
    ...files.map((path, i) => compileFile(path, [...at, 'files', i], scope)),
    ...shared_secrets.map(({ value, ...facts }, i) =>
      compileHeld(value, (text) => readSharedSecret(text, facts), [...at, 'shared_secrets', i, 'value'], scope)
    )
  ]
}

function compileUrl(source: string, at: NodePath, chosen: KeySetPlaces, scope: Scope): KeySource {
  checkUrl(source, /^https?:\/\/[^\s/]/i, 'an absolute http or https URL', at, scope)
  if (/^http:/i.test(source)) {
    scope.warn(
      at,
      jwtProblems.KEYS_UNPROTECTED,
      'keys that come over plain HTTP can be replaced on their way; use https'
    )
  }
  const url = scope.template(source, at)
  if (url.constant === undefined) return loadedKeys((flow) => chosen.url(url.text(flow), originOf(source)))
  const cache = scope.service(keySets).url(url.constant, originOf(url.constant))
  return loadedKeys(() => cache)
}

/** Returns scheme and host of a URL or URL template, for logs. */
function originOf(url: string): string {
  return /^https?:\/\/[^/?#@]*(?=[/?#]|$)/i.exec(url)?.[0] ?? ''
}

function compileFile(path: string, at: NodePath, scope: Scope): KeySource {
  const folders = scope.service(keyFolders)
  if (!isAbsolute(path)) scope.problem(at, policyErrors.CONFIG_INVALID, `\`${at.join('.')}\` must be an absolute path`)
  else if (folders !== undefined && !folders.some((folder) => liesIn(folder, path))) {
    const where = folders.length === 0 ? 'none is allowed here' : `allowed are ${folders.join(', ')}`
    const message = `\`${at.join('.')}\` lies in no folder that keys may be read from (option jwt.key_folders): ${where}`
    scope.problem(at, jwtProblems.KEYS_FORBIDDEN, message)
  }
  const cache = scope.service(keySets).file(path, folders ?? [])
  return loadedKeys(() => cache)
}

function compileInline(keys: string | Readonly<Record<string, unknown>>, at: NodePath, scope: Scope): KeySource {
  return compileHeld(typeof keys === 'string' ? keys : literal(JSON.stringify(keys)), readHeldKeys, at, scope)
}

/** Returns a template of literal text. */
function literal(text: string): Template {
  return { source: text, constant: text, type: 'string', variables: new Set(), text: () => text, value: () => text }
}

/** Compiles keys in the document. They are parsed at once, so that invalid ones are rejected; no message contains them. */
function compileHeld(source: string | Template, read: (text: string) => KeySet, at: NodePath, scope: Scope): KeySource {
  const text = typeof source === 'string' ? scope.template(source, at) : source
  if (text.constant !== undefined) {
    try {
      read(text.constant)
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error
      scope.problem(at, policyErrors.CONFIG_INVALID, `\`${at.join('.')}\`: ${error.message}`)
    }
  }
  return heldKeys(text, read)
}
