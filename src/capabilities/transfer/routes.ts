import { Readable } from 'node:stream'
import { defineRoute, type RouteGroup } from '../../api/define-route.js'
import { revisionIn } from '../../api/parameters.js'
import { ACCOUNT_DOCUMENT } from './answers.js'
import type { Backups } from './backups.js'
import { type Exports, jsonPieces } from './exports.js'

/** Copies and documents of the account. */
export interface Transfers {
  readonly backups: Backups
  readonly exports: Exports
}

/** Name of a backup until its user gives it another. */
const NAME = 'sluice-backup.db'
/** Media type of a backup. */
const BACKUP_TYPE = 'application/vnd.sqlite3'

const makeBackup = defineRoute({
  method: 'GET',
  path: '/backup',
  id: 'backup_get',
  summary:
    'A consistent copy of the store as a SQLite file, for administrators; "sluice restore" takes it. Secrets stay sealed, and no key is in it. Not on PostgreSQL, which has tools of its own (409).',
  right: 'backup',
  answers: 'The copy.',
  answer: { type: 'string', format: 'binary' },
  media: BACKUP_TYPE,
  run: (_asked, { backups }: Transfers) => backups.make(),
  send: (reply, { file, bytes }) =>
    reply
      .header('content-length', String(bytes))
      .header('content-disposition', `attachment; filename="${NAME}"`)
      .type(BACKUP_TYPE)
      .send(file.createReadStream())
})

const exportAt = defineRoute({
  method: 'GET',
  path: '/revisions/{id}/export',
  id: 'revisions_export',
  summary:
    'The account as it was at the revision, as "sluice export" writes it and "sluice import" takes it: without any write-only value, ' +
    'for administrators. 409 when the history does not keep what is needed.',
  right: 'transfer',
  answers: 'The account.',
  answer: ACCOUNT_DOCUMENT,
  run: ({ params: { id } }, { exports }: Transfers) => exports.at(revisionIn(id)),
  send: (reply, document) =>
    reply.type('application/json; charset=utf-8').send(Readable.from(jsonPieces(document), { objectMode: false }))
})

/** Routes of copies of the whole account. */
export const transferRoutes: readonly RouteGroup<Transfers>[] = [
  { tag: 'Backup', description: 'A copy of everything that the store holds.', routes: [makeBackup] },
  { tag: 'Revisions', routes: [exportAt] }
]
