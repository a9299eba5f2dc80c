import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'
import { object, optional } from '../../schema/values.js'

/** Options of events. */
export const eventOptions = {
  after: 'login',
  options: {
    events: object(
      {
        folders: optional(
          option.directories({
            description:
              'Folders in which event destinations may write files; default: events in `data`. An empty list allows none.'
          })
        )
      },
      { description: 'Event files.' }
    )
  }
} satisfies OptionGroup
