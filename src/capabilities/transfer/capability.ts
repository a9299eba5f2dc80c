import { tmpdir } from 'node:os'
import { defineCapability } from '../../app/capability.js'
import { IN_MEMORY } from '../../options/values.js'
import { resources } from '../../resources/registry.js'
import { Backups } from './backups.js'
import { transferErrors } from './document.js'
import { Exports } from './exports.js'
import { transferRoutes } from './routes.js'

/** Makes backups of the store, and documents of the account as it was. */
export const transfer = defineCapability({
  name: 'transfer',
  routes: transferRoutes,
  errors: { Commands: [transferErrors] },
  open({ options, foundation: { clock }, control: { serviceAccount } }) {
    const { store, records } = serviceAccount
    const folder = options.data === IN_MEMORY ? tmpdir() : options.data
    return { backups: new Backups(store, folder), exports: new Exports({ store, clock, records, resources }) }
  }
})
