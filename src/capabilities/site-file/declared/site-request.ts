import { LONGEST_NAME, listOf, membersOf, nameOf, refused, textOf } from '../../../control/request-body.js'
import type { SiteFileRead } from './site-file.js'

/** A file that a site file names: its text, or the system's code of why it cannot be read. */
export type BundledFile =
  | { readonly name: string; readonly text: string }
  | { readonly name: string; readonly error: string }

/** A site file with everything that it names. */
export interface SiteBundle {
  /** The file as messages name it. */
  readonly file: string
  readonly text: string
  /** By the names that the file gives them. */
  readonly files: readonly BundledFile[]
}

/** A record to delete in the same write if it has this revision. */
export interface RemovedRecord {
  readonly resource: string
  readonly id: string
  readonly revision: number
}

/** The body of `PUT /site`. */
export interface SiteRequest extends SiteBundle {
  readonly remove: readonly RemovedRecord[]
}

/** A process's reading of site files that the API receives. */
export interface SiteReading {
  /** Name of the site file that the process was started with; undefined without one. */
  readonly startedWith: string | undefined
  /** Default response of edges without TLS. */
  readonly edgesOnHttp: 'serve' | 'redirect' | 'refuse'
  /** Reads a bundle. Never rejects because of its contents. `policed`: see `SiteFileInput`. */
  read(bundle: SiteBundle, policed: ReadonlySet<string>): Promise<SiteFileRead>
}

const text = (description: string) => ({ type: 'string', description })

/** JSON Schema of the body. */
export const SITE_REQUEST_SCHEMA = {
  type: 'object',
  title: 'SiteFileReplace',
  properties: {
    file: { ...text('The file as answers and messages name it.'), minLength: 1, maxLength: LONGEST_NAME },
    text: text('The site file: YAML or JSON.'),
    files: {
      type: 'array',
      description: 'Every file that it names, by the name that stands there: policies, certificates, keys, secrets.',
      items: {
        type: 'object',
        properties: {
          name: { ...text('As the site file has it.'), minLength: 1, maxLength: LONGEST_NAME },
          text: text('Its text.'),
          error: text('In place of the text: why it cannot be read, such as ENOENT.')
        },
        required: ['name'],
        additionalProperties: false
      }
    },
    remove: {
      type: 'array',
      description: 'Records of the API that go in the same write, such as those that the file takes the place of.',
      items: {
        type: 'object',
        properties: {
          resource: text('Kind of the record.'),
          id: text('Its id.'),
          revision: { type: 'integer', description: 'The revision that it must still have: its ETag.' }
        },
        required: ['resource', 'id', 'revision'],
        additionalProperties: false
      }
    }
  },
  required: ['file', 'text'],
  additionalProperties: false
} as const

/** Reads the body of `PUT /site`. Fails with `FIELD_INVALID`, `FIELD_REQUIRED` or `FIELD_UNKNOWN`; repeats no text. */
export function readSiteRequest(body: unknown): SiteRequest {
  const given = membersOf(body, '', ['file', 'text', 'files', 'remove'])
  const names = new Set<string>()
  const files = listOf(given.files, 'files').map((one, index) => {
    const at = `files[${index}]`
    const { name, text: content, error } = membersOf(one, at, ['name', 'text', 'error'])
    const known = nameOf(name, `${at}.name`)
    if (names.has(known)) throw refused('FIELD_INVALID', `${at}.name`, 'stands twice')
    names.add(known)
    if (error !== undefined && content === undefined) return { name: known, error: nameOf(error, `${at}.error`) }
    if (error !== undefined) throw refused('CONFLICTING_FIELDS', `${at}.error`, 'does not go with text')
    return { name: known, text: textOf(content, `${at}.text`) }
  })
  const remove = listOf(given.remove, 'remove').map((one, index) => {
    const at = `remove[${index}]`
    const { resource, id, revision } = membersOf(one, at, ['resource', 'id', 'revision'])
    if (!Number.isSafeInteger(revision)) throw refused('FIELD_INVALID', `${at}.revision`, 'must be a whole number')
    return {
      resource: nameOf(resource, `${at}.resource`),
      id: nameOf(id, `${at}.id`),
      revision: revision as number
    }
  })
  return { file: nameOf(given.file, 'file'), text: textOf(given.text, 'text'), files, remove }
}
