import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Rules of our own that sum up scores as the Core Rule Set does. */
const RULES = `
SecComponentSignature "TEST_RULES/1.0"
SecRule &TX:inbound_anomaly_score_threshold "@eq 0" "id:901100,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=5"
SecRule &TX:outbound_anomaly_score_threshold "@eq 0" "id:901110,phase:1,pass,nolog,setvar:tx.outbound_anomaly_score_threshold=4"
SecRule &TX:blocking_paranoia_level "@eq 0" "id:901120,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=1"
SecRule &TX:detection_paranoia_level "@eq 0" \\
    "id:901125,phase:1,pass,nolog,setvar:'tx.detection_paranoia_level=%{TX.blocking_paranoia_level}'"
SecAction "id:901200,phase:1,pass,nolog,setvar:tx.blocking_inbound_anomaly_score=0,setvar:tx.blocking_outbound_anomaly_score=0"
SecRule REQUEST_HEADERS:User-Agent "@contains scanner" \\
    "id:913100,phase:1,block,t:none,t:lowercase,msg:'Scanner',logdata:'Found %{MATCHED_VAR}',severity:'NOTICE',\\
    setvar:'tx.blocking_inbound_anomaly_score=+2'"
SecRule ARGS|REQUEST_BODY|ARGS_NAMES "@rx <script" \\
    "id:941100,phase:2,block,capture,t:none,t:urlDecodeUni,t:lowercase,msg:'Script',logdata:'%{TX.0} within %{MATCHED_VAR_NAME}',\\
    severity:'CRITICAL',tag:'attack-xss',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule TX:DETECTION_PARANOIA_LEVEL "@lt 2" "id:941013,phase:2,pass,nolog,skipAfter:END-941"
SecRule ARGS "@contains <" \\
    "id:941200,phase:2,block,t:none,msg:'Bracket',severity:'CRITICAL',tag:'attack-xss',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecMarker "END-941"
SecRule TX:BLOCKING_INBOUND_ANOMALY_SCORE "@ge %{tx.inbound_anomaly_score_threshold}" \\
    "id:949110,phase:2,deny,t:none,msg:'Score %{TX.BLOCKING_INBOUND_ANOMALY_SCORE}'"
SecRule RESPONSE_BODY "@rx <\\?php" \\
    "id:953100,phase:4,block,t:none,msg:'Source',severity:'ERROR',setvar:'tx.blocking_outbound_anomaly_score=+4'"
SecRule TX:BLOCKING_OUTBOUND_ANOMALY_SCORE "@ge %{tx.outbound_anomaly_score_threshold}" "id:959100,phase:4,deny,t:none,msg:'Score'"
`

/** Writes the rules into a folder in the form of a release; `more` follows them. */
export function writeRules(folder: string, more = ''): string {
  mkdirSync(join(folder, 'rules'), { recursive: true })
  writeFileSync(join(folder, 'crs-setup.conf.example'), 'SecDefaultAction "phase:2,log,pass"\n')
  writeFileSync(join(folder, 'rules', 'REQUEST-900.conf'), RULES + more)
  return folder
}
