import { answer, operation, type Paths } from '../../api/openapi-parts.js'
import { ACCOUNT_RIGHTS } from '../../control/rights.js'
import { httpsEdgeRoute } from '../../resources/edges.js'
import type { Resource } from '../../resources/resource.js'
import { listOf, object, ref, text, textOrNull, titledObject } from '../../schema/answer.js'
import { ADOPTED } from './declared/adoption.js'
import { ITEM_KINDS } from './declared/differences.js'
import { SITE_REQUEST_SCHEMA } from './declared/site-request.js'
import { ADOPTION_PATH, SITE_PATH } from './routes.js'

const TAG = 'SiteFile'
const line = { type: 'integer', minimum: 1, description: 'Line in the file.' } as const

const ITEM = {
  kind: { ...text, enum: ITEM_KINDS },
  name: { ...text, description: 'The name that the file gives it: a host, a name, a file.' },
  line,
  file: { ...textOrNull, description: 'A file that the site file imports, in which the line is; null: the site file.' }
}

const SITE = {
  uri: text,
  file: {
    ...textOrNull,
    description: 'The file as the process, or who applied it, names it; null: nothing is declared.'
  },
  origin: {
    enum: ['start', 'apply', null],
    description: 'start: the process was started with it. apply: it was applied by this API.'
  },
  revision: { type: ['integer', 'null'], description: 'The revision that applied it; null: none did.' },
  digest: { ...textOrNull, description: 'SHA-256 of the file with everything that it names.' },
  since: { ...textOrNull, format: 'date-time', description: 'Since when it is declared.' },
  items: listOf(titledObject('SiteFileItem', ITEM), 'Everything that it declares, in its order.')
}

const CHANGE = titledObject('SiteFileChange', {
  change: { ...text, enum: ['added', 'changed', 'removed'] },
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

const WRITTEN = titledObject('SiteFileWritten', {
  ...SITE,
  changes: listOf(ref('SiteFileChange'), 'What the file changes of what was declared before.'),
  removed: listOf(object(RECORD), 'Records of the API that go in the same write.'),
  warnings: listOf(
    object({
      file: text,
      code: text,
      message: text,
      path: text,
      line,
      column: { type: 'integer' },
      length: { type: 'integer' }
    }),
    'What is doubtful in the file and in what it names.'
  )
})

const ADOPTION = titledObject('SiteFileAdoption', {
  site: { type: 'object', description: 'The site file as data.' },
  files: listOf(object({ name: text, text }), 'Policies and certificates that it names.'),
  secrets: listOf(
    object({ file: text, ...RECORD, path: text }),
    'Files that it names for secrets and private keys, whose values no answer shows.'
  ),
  records: listOf(
    object({ ...RECORD, revision: { type: 'integer' } }),
    'The records whose place it takes, for `remove` of its application.'
  ),
  left: listOf(object({ ...RECORD, why: text }), 'What the file cannot say, or says otherwise, with the reason.')
})

/** Describes the site file of the account. Adds its paths and schemas; returns its tag. */
export function describeSite(paths: Paths, schemas: Record<string, object>): object {
  Object.assign(schemas, {
    SiteFile: titledObject(TAG, SITE),
    SiteFileChange: CHANGE,
    SiteFileReplace: SITE_REQUEST_SCHEMA,
    SiteFileWritten: WRITTEN,
    SiteFileAdoption: ADOPTION
  })
  const member = ACCOUNT_RIGHTS.site_file.member ? 'any' : 'none'
  paths[SITE_PATH] = {
    get: operation('site_file_get', TAG, 'What a site file declares, and where it stands there.', {
      member,
      responses: { 200: answer('What is declared; empty without a site file.', ref('SiteFile'), ['etag']) }
    }),
    put: operation(
      'site_file_replace',
      TAG,
      'Makes a site file what the account declares, in one write: all of it or nothing. The store keeps it. `{ env: … }` and ' +
        '`{ vault: … }` are resolved here, files come in the body, which may have 4 MiB. A process that was started with a ' +
        'site file refuses it (409), but for a dry run.',
      {
        member,
        parameters: ['if_match', 'force', 'dry_run'],
        body: ref('SiteFileReplace'),
        responses: { 200: answer('What is declared now, and what changed.', ref('SiteFileWritten'), ['etag']) }
      }
    ),
    delete: operation('site_file_delete', TAG, 'Takes the applied file away with everything that it declares.', {
      member,
      parameters: ['if_match', 'force', 'dry_run'],
      responses: { 204: answer('It is gone.') }
    })
  }
  paths[ADOPTION_PATH] = {
    get: operation('site_file_adoption', TAG, 'What this API has made, as a site file. Changes nothing.', {
      member,
      responses: { 200: answer('The file, and what it cannot say.', ref('SiteFileAdoption')) }
    })
  }
  return { name: TAG, description: 'The file that declares sites, backends, certificates and policies.' }
}

const DECLARABLE: ReadonlySet<string> = new Set([...ADOPTED, httpsEdgeRoute].map(({ name }) => name))

/** The schema of an answer that shows a record, with the place in a site file of one that stands there. */
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
