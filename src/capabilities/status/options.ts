import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'

/** Options of the status page. */
export const statusOptions = {
  after: 'api',
  options: {
    status_page: option.switched({
      description:
        'Serve /status on the API listener without a key: the host names of all sites, and which of them are up. Switch it on only if these names may be public.',
      default: 'off'
    })
  }
} satisfies OptionGroup
