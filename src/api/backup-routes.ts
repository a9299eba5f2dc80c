import type { Account } from './account.js'
import { callOf, queryOf, type Router, route } from './calls.js'

/** What a backup is called until its user gives it a name. */
const NAME = 'sluice-backup.db'
export const BACKUP_TYPE = 'application/vnd.sqlite3'

/** A consistent copy of the store for administrators, without any key: `sluice restore` takes it. */
export function addBackup(router: Router, account: Account): void {
  route(router, 'GET', '/backup', {}, async (request, reply) => {
    queryOf(request, [])
    const serving = account.revision
    const { file, bytes } = await account.backups.make(callOf(request))
    return reply
      .header('service-revision', String(serving))
      .header('content-length', String(bytes))
      .header('content-disposition', `attachment; filename="${NAME}"`)
      .type(BACKUP_TYPE)
      .send(file.createReadStream())
  })
}
