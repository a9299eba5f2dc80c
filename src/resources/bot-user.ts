import { boolean, text } from './fields.js'
import { defineResource } from './resource.js'

/** An identity for programs. */
export const botUser = defineResource({
  name: 'bot_user',
  description: 'An identity for programs. Its API keys and credentials work while it is active.',
  path: '/bot_users',
  listKey: 'bot_users',
  idPrefix: 'bot',
  events: 'bot_user',
  fields: {
    name: text({ description: 'For people.', bytes: 255, required: true, unique: 'bot_user_name' }),
    active: boolean({ description: 'false: nothing that it owns opens anything.', default: true })
  }
})
