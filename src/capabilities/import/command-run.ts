import { readdir, readFile, writeFile } from 'node:fs/promises'
import { failureText } from '../../cli/failure.js'
import { ExitCode } from '../../cli/process.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { printableLines } from '../../lib/printable.js'
import type { ImportFlags } from './command-flags.js'
import type { ImportSources } from './model.js'
import { FORMATS } from './readers.js'
import { countVerdicts, formatTable, reportJson } from './report.js'
import { writeSiteFile } from './site-file.js'

/** Exit code of statements that have no counterpart, or of a failed proof. */
const NOT_ALL_HERE = 1

/** `sluice import nginx`: writes the site file and the report, and proves it if asked to. Answers with the exit code. */
export async function importSite(format: string, files: readonly string[], flags: ImportFlags): Promise<number> {
  const problem = usageProblem(flags)
  if (problem !== undefined) {
    console.error(`error: ${problem}`)
    return ExitCode.usage
  }
  try {
    const read = await (FORMATS[format] as (typeof FORMATS)[string]).load()
    const given: ImportSources = {
      readFile: (path: string) => readFile(path, 'utf8'),
      listFolder: (path: string) => readdir(path),
      environment: process.env
    }
    const adapted = flags.adapt === true ? await (await import('./caddy/adapt.js')).adaptFiles(files, given) : undefined
    const config = await read(adapted?.files ?? files, adapted?.sources ?? given)
    const { text, statements } = writeSiteFile(config)
    if (flags.output !== undefined) await writeFile(flags.output, text, { flag: flags.overwrite === true ? 'w' : 'wx' })
    const json = flags.report === 'json'
    const toReport =
      flags.output === undefined ? (line: string) => console.error(line) : (line: string) => console.log(line)
    if (flags.output === undefined && !json) process.stdout.write(text)
    const proof =
      flags.prove === true ? await (await import('./command-prove.js')).prove(config, statements, flags) : undefined
    if (json)
      console.log(
        JSON.stringify(
          {
            ...reportJson(format, statements),
            ...(flags.output === undefined ? { site_file: text } : {}),
            ...(proof === undefined ? {} : { proof: proof.json })
          },
          undefined,
          2
        )
      )
    else for (const line of [...formatTable(statements), ...(proof?.lines ?? [])]) toReport(printableLines(line))
    return countVerdicts(statements).notHere > 0 || proof?.failed === true ? NOT_ALL_HERE : ExitCode.ok
  } catch (error) {
    if (!(error instanceof CodedError) && codeOf(error) === undefined) throw error
    console.error(`error: ${failureText(error)}`)
    return ExitCode.usage
  }
}

function usageProblem({ report, prove, old, upstreams, recordPorts, requests }: ImportFlags): string | undefined {
  if (report !== 'text' && report !== 'json') return '--report is text or json'
  if (upstreams !== 'live' && upstreams !== 'record') return '--upstreams is live or record'
  if (prove === true && old === undefined) return '--prove compares with a server: give --old URL'
  if (prove !== true && (old !== undefined || requests !== undefined))
    return '--old and --requests belong to --prove: give it, too'
  if (old !== undefined && !/^https?:\/\/[^/?#]+\/?$/.test(old)) return '--old is a URL such as http://127.0.0.1:8080'
  if (recordPorts !== undefined && !/^\d{1,5}(?:,\d{1,5})*$/.test(recordPorts))
    return '--record-ports is a list such as 9001,9002'
  return recordPorts !== undefined && upstreams !== 'record'
    ? '--record-ports belongs to --upstreams record'
    : undefined
}
