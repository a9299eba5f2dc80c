import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json } from '../../../lib/json.js'
import { integer, listOf, mapOf, object, text, titledObject, type ValueOf } from '../../../schema/answer.js'
import type { ResourceRecord } from '../../../schema/field.js'
import { NAMED_LISTS } from './form.js'

/** Contents of a site file, as data. */
export type Data = { [key: string]: Json }

/** Response of edges without TLS. */
export type OnHttp = 'serve' | 'redirect' | 'refuse'

const RECORD = { resource: { ...text, description: 'Kind of the record.' }, id: text }

/** The API's configuration as a site file. */
export const SITE_ADOPTION = titledObject('SiteFileAdoption', {
  site: mapOf(undefined, 'The site file as data.'),
  files: listOf(object({ name: text, text }), 'Policies and certificates that it names.'),
  secrets: listOf(
    object({ file: text, ...RECORD, path: text }),
    'Files that it names for secrets and private keys, whose values no answer shows.'
  ),
  records: listOf(
    object({ ...RECORD, revision: integer }),
    'The records whose place it takes, for `remove` of its application.'
  ),
  left: listOf(object({ ...RECORD, why: text }), 'What the file cannot say, or says otherwise, with the reason.')
})
/** A site file made of the API's records, with the files that it names. */
export type Adoption = ValueOf<typeof SITE_ADOPTION>
/** A record that a site file cannot express, or expresses otherwise. */
export type LeftOut = Adoption['left'][number]
/** File for the value of a secret, which API responses do not contain. */
export type NeededSecret = Adoption['secrets'][number]

const PORT = ':443'

/** Returns a module as written in a file; undefined if it is missing, or switched off. */
export function switchedOn(module: Json | undefined): Data | undefined {
  if (!isObject(module) || module.enabled === false) return undefined
  const { enabled: _enabled, ...rest } = structuredClone(module) as Data
  return rest
}

/** Is this the value that a record has without the field? */
export function isUsual(value: Json, initial: unknown): boolean {
  return (
    value === null || value === '' || (Array.isArray(value) && value.length === 0) || isDeepStrictEqual(value, initial)
  )
}

/** Sets a value below the keys of a path; levels that are not there are made. */
export function setAt(data: Data, [first = '', ...rest]: readonly string[], value: Json): void {
  if (rest.length === 0) data[first] = value
  else {
    if (!isObject(data[first])) data[first] = {}
    setAt(data[first] as Data, rest, value)
  }
}

/** Returns the host of a hostport, without the default port. */
export const hostOf = (hostport: string) => (hostport.endsWith(PORT) ? hostport.slice(0, -PORT.length) : hostport)
export const endsWithSlash = (path: unknown) => String(path).endsWith('/')

const LONGEST = 60

/** Letters, digits, dots and hyphens of a text: for names of things and files. */
export function slug(written: unknown): string {
  const words = typeof written === 'string' ? written.toLowerCase().replace(/[^a-z0-9.]+/g, '-') : ''
  return words.slice(0, LONGEST).replace(/^[-.]+|[-.]+$/g, '')
}

/** A record with the revision that wrote it. */
export interface Found {
  readonly record: ResourceRecord
  readonly revision: number
}

/** Lists of ids under the names that the file has for them. `names`: of the file, by ids. */
export function withNames(value: Json, names: ReadonlyMap<string, string>): Json {
  if (Array.isArray(value)) return value.map((one: Json) => withNames(one, names))
  if (!isObject(value)) return value
  const entries = Object.entries(value as Data).map(([key, inner]): [string, Json] => {
    const named = Object.entries(NAMED_LISTS).find(([, { request }]) => request === key)
    if (named === undefined || !Array.isArray(inner)) return [key, withNames(inner, names)]
    return [named[0], inner.map((id: Json) => names.get(String(id)) ?? String(id))]
  })
  return Object.fromEntries(entries)
}
