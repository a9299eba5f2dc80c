import { httpsEdgeRoute } from '../../resources/edges.js'
import type { Resource } from '../../resources/resource.js'
import {
  integer,
  listOf,
  mapOf,
  object,
  orNull,
  text,
  textOrNull,
  time,
  titledObject,
  type ValueOf,
  words
} from '../../schema/answer.js'
import { ADOPTED } from './declared/adoption.js'
import { ITEM_KINDS } from './declared/differences.js'

const line = { ...integer, minimum: 1, description: 'Line in the file.' } as const

const ITEM = {
  kind: words(ITEM_KINDS),
  name: { ...text, description: 'The name that the file gives it: a host, a name, a file.' },
  line,
  file: { ...textOrNull, description: 'A file that the site file imports, in which the line is; null: the site file.' }
}

const DECLARED = {
  uri: text,
  file: {
    ...textOrNull,
    description: 'The file as the process, or who applied it, names it; null: nothing is declared.'
  },
  origin: {
    ...orNull(words(['start', 'apply'])),
    description: 'start: the process was started with it. apply: it was applied by this API. null: nothing is declared.'
  },
  revision: { ...orNull(integer), description: 'The revision that applied it; null: none did.' },
  digest: { ...textOrNull, description: 'SHA-256 of the file with everything that it names.' },
  since: { ...orNull(time), description: 'Since when it is declared.' },
  items: listOf(titledObject('SiteFileItem', ITEM), 'Everything that it declares, in its order.')
}

const CHANGE = titledObject('SiteFileChange', {
  change: words(['added', 'changed', 'removed']),
  ...ITEM,
  fields: listOf(
    object({
      field: { ...text, description: 'As this API names it; of a route behind its path.' },
      before: { description: 'null: it was not set. Names of the file stand for ids.' },
      after: { description: 'null: it is not set.' }
    }),
    'What differs of something that is changed.'
  ),
  secrets: listOf(text, 'Fields of secrets whose values differ.')
})

const RECORD = { resource: { ...text, description: 'Kind of the record.' }, id: text }

/** A site file after a write. */
export const SITE_WRITTEN = titledObject('SiteFileWritten', {
  ...DECLARED,
  changes: listOf(CHANGE, 'What the file changes of what was declared before.'),
  removed: listOf(object(RECORD), 'Records of the API that go in the same write.'),
  warnings: listOf(
    object({ file: text, code: text, message: text, path: text, line, column: integer, length: integer }, [
      'file',
      'length'
    ]),
    'What is doubtful in the file and in what it names.'
  )
})

/** Records of the API as a site file. */
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

/** Everything that a site file declares. */
export const SITE_FILE = titledObject('SiteFile', DECLARED)

export type SiteFileView = ValueOf<typeof SITE_FILE>
export type SiteFileWritten = ValueOf<typeof SITE_WRITTEN>

const DECLARABLE: ReadonlySet<string> = new Set([...ADOPTED, httpsEdgeRoute].map(({ name }) => name))

/** Extends the response schema of a record by its position in a site file. */
export function withPlace({ name }: Resource, schema: object): object {
  if (!DECLARABLE.has(name)) return schema
  const { properties, ...rest } = schema as { readonly properties: object }
  const declared = {
    ...object({ file: text, line }),
    readOnly: true,
    description: 'Where a site file declares it, which alone can change it; absent: this API has made it.'
  }
  return { ...rest, properties: { ...properties, declared } }
}
