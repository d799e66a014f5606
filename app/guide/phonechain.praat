# Labels the selected Sound and TextGrid with a running Phonechain and opens the answer as a further TextGrid:
# the tiers that you had, and two more for the labels and their posteriors.
#
# In Praat: select one Sound and one TextGrid, then Praat > Open Praat script..., Run. "Add to dynamic menu..." makes a
# button of it. It needs curl, which Windows, macOS and most Linux systems have.

form Label with Phonechain
	sentence Address http://127.0.0.1:8000
	sentence Model default
	comment Tier that holds the phones; empty if its name or content says it
	sentence Tier
endform

if numberOfSelected ("Sound") <> 1 or numberOfSelected ("TextGrid") <> 1
	exitScript: "Please select one Sound and one TextGrid."
endif
sound = selected ("Sound")
grid = selected ("TextGrid")
name$ = selected$ ("TextGrid")

folder$ = temporaryDirectory$
audio$ = folder$ + "/phonechain-sound.wav"
segments$ = folder$ + "/phonechain-segments.TextGrid"
answer$ = folder$ + "/phonechain-answer.TextGrid"
deleteFile: answer$

selectObject: sound
Save as WAV file: audio$
selectObject: grid
Save as text file: segments$

query$ = "format=textgrid&model=" + model$
if tier$ <> ""
	query$ = query$ + "&tier=" + tier$
endif
quote$ = """"
command$ = "curl -sS -F " + quote$ + "audio=@" + audio$ + quote$
command$ = command$ + " -F " + quote$ + "segments=@" + segments$ + quote$
command$ = command$ + " -o " + quote$ + answer$ + quote$
command$ = command$ + " " + quote$ + address$ + "/classify?" + query$ + quote$
runSystem_nocheck: command$

if not fileReadable (answer$)
	selectObject: sound, grid
	exitScript: "No answer from " + address$ + ". Is ""phonechain serve"" running?"
endif
text$ = readFile$ (answer$)
if index (text$, "File type") <> 1
	selectObject: sound, grid
	exitScript: "Phonechain says: " + text$
endif
labelled = Read from file: answer$
Rename: name$ + "_labelled"
deleteFile: audio$
deleteFile: segments$
deleteFile: answer$
selectObject: sound, labelled
