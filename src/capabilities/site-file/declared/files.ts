import { isAbsolute, resolve } from 'node:path'
import type { NodePath } from '../../../policy/problems.js'
import type { MapEntry } from '../../../policy/tree.js'
import { fileBackend } from '../../../resources/file-backend.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import type { At } from './declared-part.js'
import { FILES } from './fields.js'

/** Is the text a folder in place of a backend's name: `./public`, `..` or `/srv/www`? */
export function isFolderPath(text: string): boolean {
  return /^(?:\/|\.{1,2}(?:\/|$))/.test(text)
}

interface FilesRead {
  readonly folder: MapEntry
  /** Description, metadata and settings of the folder, as in API requests. */
  readonly about: Readonly<Record<string, unknown>>
  readonly settings: Readonly<Record<string, unknown>>
}

/** Declares the backend of a folder, relative to that of the site file. Returns its id; undefined after a report. */
export async function readFiles(
  declaration: Declaration,
  entry: MapEntry,
  path: NodePath,
  { folder, about, settings }: FilesRead,
  settingAt: (field: string) => At | undefined
): Promise<string | undefined> {
  const within = [...path, folder.key]
  const written = declaration.text(folder.value, within, 'the folder of files')
  if (written === undefined) return undefined
  const { span } = folder.value
  const { input, source } = declaration
  if (input.checkFolder !== undefined && !isAbsolute(written)) {
    const message = `the folder "${written}" must have an absolute path where a site file is applied to a running process`
    declaration.error({ path: within, span }, fieldErrors.FIELD_INVALID, message)
    return undefined
  }
  const at = { path, span: entry.keySpan }
  const body = { ...about, ...settings, folder: resolve(input.folder, source.named(written, span)) }
  const wanted = { label: `backend ${entry.key}`, name: [entry.key], body, at }
  return (await declaration.add(fileBackend, { ...wanted, locate: (field) => settingAt(field) ?? at }))?.id
}

/** Returns the fields of a site or route, with a backend in place of its files. */
export function withFiles(
  declaration: Declaration,
  fields: ReadonlyMap<string, MapEntry>,
  path: NodePath
): ReadonlyMap<string, MapEntry> {
  const entries = Object.keys(FILES).flatMap((name) => fields.get(name) ?? [])
  const [first] = entries
  if (first === undefined) return fields
  const others = [...fields].filter(([name]) => !(name in FILES))
  const { span } = first.value
  if (fields.has('backend')) {
    const at = { path: [...path, first.key], span: first.keySpan }
    declaration.error(at, fieldErrors.CONFLICTING_FIELDS, `${first.key} does not go with backend`)
    return new Map(others)
  }
  return new Map([...others, ['backend', { ...first, key: 'files', value: { kind: 'map', span, entries } }]])
}
