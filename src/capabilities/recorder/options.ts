import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'
import { object, optional, size, text } from '../../schema/values.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB

/** Options of the recorder. */
const recorder = object(
  {
    where: optional(
      text({
        description:
          'CEL condition on finished requests: which ones are recorded, such as res.status_code >= 400 (variables of policies and ' +
          'exchange.*); false: only those that are followed or explained. Without it, refused and failed requests (up to 50 in a second) ' +
          'and a sample of the others (up to 5 in a second).'
      })
    ),
    explain: optional(
      text({
        description:
          'CEL condition on requests: which ones are explained and recorded, such as rand.double() < 0.01. Without it, only requests with an explain key.'
      })
    ),
    memory: size({
      description: 'Maximum memory for recorded requests; the oldest are dropped.',
      default: '16MiB',
      min: 64 * 1024,
      max: 4 * GIB
    }),
    bodies: size({
      description: 'Maximum bytes to keep of each body; 0B: none.',
      default: '0B',
      min: 0,
      max: 16 * MIB
    }),
    file: optional(
      option.directory({
        description: 'File to which recorded requests are also written, one JSON object a line, without secrets.'
      })
    ),
    file_bytes: size({
      description: 'Maximum size of that file; then it is rotated to <file>.1.',
      default: '64MiB',
      min: MIB,
      max: 64 * GIB
    })
  },
  {
    description: 'Recorder of requests, for inspection and replay. Reloaded without a restart.'
  }
)

/** Options of the recorder. */
export const recorderOptions = { after: 'log', options: { recorder } } satisfies OptionGroup
