import { httpsEdgeRoute } from '../../resources/edges.js'
import type { Resource } from '../../resources/resource.js'
import {
  integer,
  listOf,
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
import { SITE_CHANGE, SITE_ITEM, SITE_LINE } from './declared/differences.js'

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
  items: listOf(SITE_ITEM, 'Everything that it declares, in its order.')
}

/** A site file after a write. */
export const SITE_WRITTEN = titledObject('SiteFileWritten', {
  ...DECLARED,
  changes: listOf(SITE_CHANGE, 'What the file changes of what was declared before.'),
  removed: listOf(
    object({ resource: { ...text, description: 'Kind of the record.' }, id: text }),
    'Records of the API that go in the same write.'
  ),
  warnings: listOf(
    object({ file: text, code: text, message: text, path: text, line: SITE_LINE, column: integer, length: integer }, [
      'file',
      'length'
    ]),
    'What is doubtful in the file and in what it names.'
  )
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
    ...object({ file: text, line: SITE_LINE }),
    readOnly: true,
    description: 'Where a site file declares it, which alone can change it; absent: this API has made it.'
  }
  return { ...rest, properties: { ...properties, declared } }
}
