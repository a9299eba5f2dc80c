import { texts } from '../fields.js'
import { module } from '../objects.js'

const patterns = (description: string) => texts({ description, form: 'regex', bytes: 1024, max: 50 })

/** Refuses user agents by their name. */
export function userAgentFilterModule() {
  return module('Lets user agents pass or refuses them by patterns of their name.', {
    allow: patterns('Regular expressions (RE2); what one matches may pass.'),
    deny: patterns('Regular expressions (RE2); what one matches is refused, unless one of allow matches.')
  })
}
