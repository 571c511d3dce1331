package heads

import "testing"

// Tasks are recognised by names, the surer the more names say so; common classifiers have no such names.
func TestLikely(t *testing.T) {
	for names, want := range map[[2]string][2]string{
		{"embedding", "arcface_r50.onnx"}:       {Verification, "likely"},
		{"fc1", "FaceNet.onnx"}:                 {Verification, "perhaps"},
		{"image_embeds", "clip-vit-b32.onnx"}:   {ZeroShot, "likely"},
		{"steering_angle", "pilotnet.onnx"}:     {Regression, "perhaps"},
		{"tags", "wd-tagger.onnx"}:              {MultiLabel, "perhaps"},
		{"x", "surface.onnx"}:                   {},
		{"x", "clipped_resnet.onnx"}:            {},
		{"depth", "midas.onnx"}:                 {Depth, "perhaps"},
		{"logits", "resnet50.onnx"}:             {},
		{"output", "imagenet.onnx"}:             {},
		{"495", "mobilenet_v2.onnx"}:            {},
		{"output1", "stages-efficientnet.onnx"}: {},
	} {
		if task, sure := Likely(names[0], names[1]); task != want[0] || sure != want[1] {
			t.Errorf("%v: %s %s, not %v", names, sure, task, want)
		}
	}
}
