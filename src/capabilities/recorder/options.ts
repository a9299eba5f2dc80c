import * as option from '../../options/values.js'
import { object, optional, size, text } from '../../schema/values.js'

const MIB = 1024 * 1024
const GIB = 1024 * MIB

/** `recorder`: what is kept of exchanges. */
export const recorder = object(
  {
    where: optional(
      text({
        description:
          'CEL: which exchanges are recorded when they have ended, by the variables of policies and exchange.*, such as ' +
          'res.status_code >= 400. Without it those that are followed or explained.'
      })
    ),
    explain: optional(
      text({
        description:
          'CEL over requests: which ones are explained (and recorded), such as rand.double() < 0.01. Without it those that show a key.'
      })
    ),
    memory: size({
      description: 'Memory for recorded exchanges; the oldest make room.',
      default: '16MiB',
      min: 64 * 1024,
      max: 4 * GIB
    }),
    bodies: size({
      description: 'Bytes of each body that are kept; 0B: none.',
      default: '0B',
      min: 0,
      max: 16 * MIB
    }),
    file: optional(
      option.directory({
        description: 'File that recorded exchanges are written to as well, a line of JSON each, without secrets.'
      })
    ),
    file_bytes: size({
      description: 'Size of that file; then it is renamed to <file>.1 and a new one begins.',
      default: '64MiB',
      min: MIB,
      max: 64 * GIB
    })
  },
  {
    description:
      'Exchanges that are kept to look at them and to try other policies with them. Changes are applied while running.'
  }
)
